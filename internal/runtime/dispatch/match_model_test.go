package dispatch_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// model is a simple model of the matcher, without queues: which work each worker may get, which worker holds
// which work, and which work is ready and has no worker.
type model struct {
	t       *rapid.T
	m       *dispatch.Matcher
	workers map[uint64]*modelWorker
	ready   map[machine.WorkID]machine.Work
	held    map[machine.WorkID]uint64
	last    uint64
	next    uint64
}

type modelWorker struct {
	offer    machine.WorkOffer
	held     [3]int
	credits  [3]int
	draining bool
}

func (w *modelWorker) capacity(kind machine.WorkKind) int {
	if kind == machine.StepWork {
		return w.offer.Steps
	}
	return w.offer.Turns
}

func (w *modelWorker) free(kind machine.WorkKind) bool {
	return !w.draining && w.credits[kind] > 0 && w.held[kind] < w.capacity(kind)
}

// Assign checks each assignment when the matcher makes it.
func (d *model) Assign(id uint64, work machine.Work) {
	w := d.workers[id]
	switch {
	case w == nil:
		d.t.Fatalf("%v went to worker %d, which is gone", work, id)
	case !w.offer.Serves(&work.WorkClass):
		d.t.Fatalf("%v went to a worker that offers %+v", work, w.offer)
	case !w.free(work.Kind):
		d.t.Fatalf("%v went to worker %d: %+v", work, id, w)
	}
	if by, twice := d.held[work.ID()]; twice {
		d.t.Fatalf("%v went to worker %d while %d holds it", work, id, by)
	}
	if d.ready[work.ID()] != work {
		d.t.Fatalf("%v was assigned, ready is %v", work, d.ready[work.ID()])
	}
	delete(d.ready, work.ID())
	d.held[work.ID()] = id
	w.held[work.Kind]++
	w.credits[work.Kind]--
	d.last = id
}

func (d *model) anyWorker() (uint64, bool) {
	var ids []uint64
	for id := uint64(1); id <= d.next; id++ {
		if d.workers[id] != nil {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return 0, false
	}
	return rapid.SampledFrom(ids).Draw(d.t, "worker"), true
}

func (d *model) join(*rapid.T) {
	d.next++
	pick := func(of []string, label string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, 2, rapid.ID[string]).Draw(d.t, label)
	}
	offer := machine.WorkOffer{
		Packs: pick([]string{"p1", "p2@1", "d3"}, "packs"), Prompts: pick([]string{"a", "b", "*"}, "prompts"),
		Agents: pick([]string{"m", "*"}, "agents"), Tools: pick([]string{"t", "u"}, "tools"),
		Turns: rapid.IntRange(0, 3).Draw(d.t, "turns"), Steps: rapid.IntRange(0, 3).Draw(d.t, "steps"),
	}
	d.workers[d.next] = &modelWorker{offer: offer}
	d.m.AddWorker(d.next, offer, 0, 0)
}

func (d *model) leave(*rapid.T) {
	id, ok := d.anyWorker()
	if !ok {
		return
	}
	delete(d.workers, id)
	for work, by := range d.held {
		if by == id {
			delete(d.held, work)
		}
	}
	d.m.RemoveWorker(id)
}

func (d *model) credit(*rapid.T) {
	id, ok := d.anyWorker()
	if !ok {
		return
	}
	turns, steps := rapid.IntRange(0, 3).Draw(d.t, "turns"), rapid.IntRange(0, 3).Draw(d.t, "steps")
	w := d.workers[id]
	w.credits[machine.TurnWork] += turns
	w.credits[machine.StepWork] += steps
	d.m.Credit(id, turns, steps)
}

func (d *model) drain(*rapid.T) {
	if id, ok := d.anyWorker(); ok {
		d.workers[id].draining = true
		d.m.Drain(id)
	}
}

func (d *model) done(*rapid.T) {
	for _, step := range []uint32{0, 1, 2} {
		for run := range 8 {
			id := machine.WorkID{RunID: fmt.Sprint("r", run), Step: step}
			by, ok := d.held[id]
			if !ok || !rapid.Bool().Draw(d.t, "this") {
				continue
			}
			kind := kindOf(step)
			delete(d.held, id)
			d.workers[by].held[kind]--
			d.m.Done(by, kind)
			return
		}
	}
}

func kindOf(step uint32) machine.WorkKind {
	if step > 0 {
		return machine.StepWork
	}
	return machine.TurnWork
}

func (d *model) add(*rapid.T) {
	work := machine.Work{
		RunID: fmt.Sprint("r", rapid.IntRange(0, 7).Draw(d.t, "run")), Step: uint32(rapid.IntRange(0, 2).Draw(d.t, "step")),
		Attempt: rapid.IntRange(1, 2).Draw(d.t, "attempt"), Last: uint64(rapid.IntRange(0, int(d.next)).Draw(d.t, "last")),
	}
	if _, held := d.held[work.ID()]; held {
		return
	}
	n := rapid.SampledFrom([]string{"1", "2", "3"}).Draw(d.t, "pack")
	work.Digest, work.PackID, work.PackVersion = "d"+n, "p"+n, "1"
	if work.Kind = kindOf(work.Step); work.Kind == machine.StepWork {
		work.Tool = rapid.SampledFrom([]string{"t", "u"}).Draw(d.t, "tool")
	} else {
		work.Prompt = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(d.t, "prompt")
		work.Agent = rapid.SampledFrom([]string{"", "m"}).Draw(d.t, "agent")
	}
	sticky := d.workers[work.Last]
	wanted := sticky != nil && sticky.free(work.Kind) && sticky.offer.Serves(&work.WorkClass)
	d.ready[work.ID()] = work
	d.last = 0
	d.m.Add(work)
	if wanted && d.last != work.Last {
		d.t.Fatalf("%v went to %d although %d had the run and was free", work, d.last, work.Last)
	}
}

func (d *model) remove(*rapid.T) {
	id := machine.WorkID{
		RunID: fmt.Sprint("r", rapid.IntRange(0, 7).Draw(d.t, "run")), Step: uint32(rapid.IntRange(0, 2).Draw(d.t, "step")),
	}
	delete(d.ready, id)
	d.m.Remove(id)
}

// check fails if work waits while a worker for it is free, or if the matcher's counts differ from the model's.
func (d *model) check(*rapid.T) {
	if d.m.Waiting() != len(d.ready) || d.m.Workers() != len(d.workers) {
		d.t.Fatalf("%d wait and %d workers, want %d and %d", d.m.Waiting(), d.m.Workers(), len(d.ready), len(d.workers))
	}
	unserved, queued := map[machine.WorkClass]int{}, map[machine.WorkClass]int{}
	for id, work := range d.ready {
		if !d.m.IsQueued(id) {
			d.t.Fatalf("%v is lost", work)
		}
		queued[work.WorkClass]++
		served := false
		for who, w := range d.workers {
			if !w.offer.Serves(&work.WorkClass) {
				continue
			}
			served = true
			if w.free(work.Kind) {
				d.t.Fatalf("%v waits although worker %d is free", work, who)
			}
		}
		if !served {
			unserved[work.WorkClass]++
		}
	}
	d.m.Unserved(func(class machine.WorkClass, n int) bool {
		if unserved[class] != n {
			d.t.Fatalf("%d of %v are unserved, want %d", n, class, unserved[class])
		}
		delete(unserved, class)
		return true
	})
	d.m.Queues(func(class machine.WorkClass, n, _ int) {
		if queued[class] != n {
			d.t.Fatalf("%d of %v are queued, want %d", n, class, queued[class])
		}
		delete(queued, class)
	})
	if len(queued) > 0 {
		d.t.Fatalf("not told of as queued: %v", queued)
	}
	if len(unserved) > 0 {
		d.t.Fatalf("not told of as unserved: %v", unserved)
	}
}

// TestModel: for any operations in any order, the matcher assigns no work twice and loses none. No worker gets
// work that it does not serve or has no room for. No work waits for a worker that is free.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := &model{
			t: t, workers: map[uint64]*modelWorker{},
			ready: map[machine.WorkID]machine.Work{}, held: map[machine.WorkID]uint64{},
		}
		d.m = dispatch.NewMatcher(d)
		t.Repeat(map[string]func(*rapid.T){
			"join": d.join, "leave": d.leave, "credit": d.credit, "drain": d.drain,
			"add": d.add, "remove": d.remove, "done": d.done, "": d.check,
		})
	})
}
