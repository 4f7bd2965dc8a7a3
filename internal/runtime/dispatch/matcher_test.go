package dispatch_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// log keeps the assignments in order.
type log struct {
	work    []machine.Work
	workers []uint64
}

func (l *log) Assign(worker uint64, work machine.Work) {
	l.work, l.workers = append(l.work, work), append(l.workers, worker)
}

func turn(pack, run string) machine.Work {
	return machine.Work{
		WorkClass: machine.WorkClass{Kind: machine.TurnWork, Digest: pack, PackID: pack, PackVersion: "1", Prompt: "p"},
		RunID:     run, Turn: 1, Attempt: 1,
	}
}

func step(pack, run string, n uint32) machine.Work {
	return machine.Work{
		WorkClass: machine.WorkClass{Kind: machine.StepWork, Digest: pack, PackID: pack, PackVersion: "1", Tool: "t"},
		RunID:     run, Turn: 1, Step: n, Attempt: 1,
	}
}

var all = machine.WorkOffer{Prompts: []string{"*"}, Tools: []string{"*"}, Turns: 1, Steps: 1}

// serve gives a worker one credit after the other, and the worker ends each work at once.
func serve(m *dispatch.Matcher, worker uint64, n int) {
	for range n {
		m.Credit(worker, 1, 1)
		m.Done(worker, machine.TurnWork)
		m.Done(worker, machine.StepWork)
	}
}

// TestFlood: a pack with a thousand runs does not keep another pack from getting every second assignment.
func TestFlood(t *testing.T) {
	t.Parallel()
	got := &log{}
	m := dispatch.NewMatcher(got)
	for i := range 1000 {
		m.Add(turn("flood", fmt.Sprint("f", i)))
	}
	for i := range 3 {
		m.Add(turn("quiet", fmt.Sprint("q", i)))
	}
	m.AddWorker(1, all, 0, 0)
	serve(m, 1, 6)
	var packs []string
	for _, w := range got.work {
		packs = append(packs, w.PackID)
	}
	if want := []string{"flood", "quiet", "flood", "quiet", "flood", "quiet"}; !slices.Equal(packs, want) {
		t.Fatalf("served %v, want %v", packs, want)
	}
}

// TestFairRuns: runs of one pack take turns with their steps, each in its order.
func TestFairRuns(t *testing.T) {
	t.Parallel()
	got := &log{}
	m := dispatch.NewMatcher(got)
	for n := range uint32(4) {
		m.Add(step("p", "greedy", n+1))
	}
	m.Add(step("p", "modest", 1))
	m.AddWorker(1, all, 0, 0)
	serve(m, 1, 5)
	var order []string
	for _, w := range got.work {
		order = append(order, fmt.Sprint(w.RunID, w.Step))
	}
	if want := []string{"greedy1", "modest1", "greedy2", "greedy3", "greedy4"}; !slices.Equal(order, want) {
		t.Fatalf("served %v, want %v", order, want)
	}
}

// TestNoStarvation: packs that share one worker are served in turn as long as each has work, even if one has
// many more runs.
func TestNoStarvation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 12), 2, 5).Draw(t, "runs")
		got := &log{}
		m := dispatch.NewMatcher(got)
		total := 0
		for p, n := range sizes {
			for r := range n {
				m.Add(turn(fmt.Sprint("p", p), fmt.Sprint("p", p, "r", r)))
				total++
			}
		}
		m.AddWorker(1, all, 0, 0)
		serve(m, 1, total)
		served := make([]int, len(sizes))
		for i, w := range got.work {
			served[w.PackID[1]-'0']++
			for a := range sizes {
				for b := range sizes {
					if served[a] < sizes[a] && served[b]-served[a] > 1 {
						t.Fatalf("after %d: pack %d had %d, pack %d only %d of %d", i+1, b, served[b], a, served[a], sizes[a])
					}
				}
			}
		}
		if len(got.work) != total || m.Waiting() != 0 {
			t.Fatalf("served %d of %d, %d wait", len(got.work), total, m.Waiting())
		}
	})
}

// TestLeastHeld: without a reason to prefer one, work goes to the worker that
// holds least, then to the one that waited longest.
func TestLeastHeld(t *testing.T) {
	t.Parallel()
	got := &log{}
	m := dispatch.NewMatcher(got)
	wide := all
	wide.Turns = 10
	m.AddWorker(1, wide, 2, 0)
	m.AddWorker(2, wide, 0, 0)
	m.AddWorker(3, wide, 0, 0)
	for id := range uint64(3) {
		m.Credit(id+1, 10, 0)
	}
	for i := range 6 {
		m.Add(turn("p", fmt.Sprint("r", i)))
	}
	if want := []uint64{2, 3, 2, 3, 1, 2}; !slices.Equal(got.workers, want) {
		t.Fatalf("went to %v, want %v", got.workers, want)
	}
}

// TestSticky: a run goes back to the worker that had it, if that one is free.
func TestSticky(t *testing.T) {
	t.Parallel()
	got := &log{}
	m := dispatch.NewMatcher(got)
	wide := all
	wide.Turns = 2
	m.AddWorker(1, wide, 1, 0)
	m.AddWorker(2, wide, 0, 0)
	m.Credit(1, 10, 0)
	m.Credit(2, 10, 0)
	again := turn("p", "r")
	again.Last = 1
	m.Add(again)
	other := turn("p", "s")
	other.Last = 1
	m.Add(other)
	if want := []uint64{1, 2}; !slices.Equal(got.workers, want) {
		t.Fatalf("went to %v, want %v", got.workers, want)
	}
}

// TestReplace: newer work of a run replaces what waits.
func TestReplace(t *testing.T) {
	t.Parallel()
	got := &log{}
	m := dispatch.NewMatcher(got)
	m.Add(turn("p", "r"))
	newer := turn("p", "r")
	newer.Attempt, newer.Prompt = 2, "q"
	m.Add(newer)
	m.AddWorker(1, all, 0, 0)
	m.Credit(1, 5, 0)
	if len(got.work) != 1 || got.work[0] != newer {
		t.Fatalf("assigned %v, want only %v", got.work, newer)
	}
}

// TestServes: what an offer covers.
func TestServes(t *testing.T) {
	t.Parallel()
	class := machine.WorkClass{Kind: machine.TurnWork, Digest: "sha256:0", PackID: "p", PackVersion: "1.0.0", Prompt: "coder", Agent: "dev"}
	tool := class
	tool.Kind, tool.Tool = machine.StepWork, "fetch"
	for _, c := range []struct {
		name        string
		offer       machine.WorkOffer
		turn, tools bool
	}{
		{"by prompt", machine.WorkOffer{Prompts: []string{"coder"}, Turns: 1}, true, false},
		{"by agent", machine.WorkOffer{Agents: []string{"dev"}, Turns: 1}, true, false},
		{"by tool", machine.WorkOffer{Tools: []string{"fetch"}, Steps: 1}, false, true},
		{"everything", machine.WorkOffer{Prompts: []string{"*"}, Tools: []string{"*"}, Turns: 1, Steps: 1}, true, true},
		{"without capacity", machine.WorkOffer{Prompts: []string{"*"}, Tools: []string{"*"}}, false, false},
		{"pack id", machine.WorkOffer{Packs: []string{"p"}, Prompts: []string{"*"}, Turns: 1}, true, false},
		{"pack version", machine.WorkOffer{Packs: []string{"p@1.0.0"}, Prompts: []string{"*"}, Turns: 1}, true, false},
		{"pack digest", machine.WorkOffer{Packs: []string{"sha256:0"}, Prompts: []string{"*"}, Turns: 1}, true, false},
		{"another version", machine.WorkOffer{Packs: []string{"p@2.0.0", "q"}, Prompts: []string{"*"}, Turns: 1}, false, false},
		{"another prompt", machine.WorkOffer{Prompts: []string{"tester"}, Turns: 1}, false, false},
	} {
		if got := c.offer.Serves(&class); got != c.turn {
			t.Errorf("%s: serves the turn: %v, want %v", c.name, got, c.turn)
		}
		if got := c.offer.Serves(&tool); got != c.tools {
			t.Errorf("%s: serves the step: %v, want %v", c.name, got, c.tools)
		}
	}
	plain := class
	plain.Agent = ""
	if agents := (machine.WorkOffer{Agents: []string{"*"}, Turns: 1}); agents.Serves(&plain) {
		t.Error("a worker of agents serves a run that is no agent's")
	}
}

// TestIdleClasses: the memory of classes is bounded, and what is forgotten is
// served like any other when it comes back.
func TestIdleClasses(t *testing.T) {
	t.Parallel()
	got := &log{}
	m := dispatch.NewMatcher(got)
	m.AddWorker(1, all, 0, 0)
	const packs = 6000
	for i := range packs {
		m.Add(turn(fmt.Sprint("p", i), fmt.Sprint("r", i)))
		serve(m, 1, 1)
	}
	if len(got.work) != packs {
		t.Fatalf("served %d of %d", len(got.work), packs)
	}
}

func BenchmarkMatch(b *testing.B) {
	m := dispatch.NewMatcher(&log{})
	wide := all
	wide.Turns = 64
	m.AddWorker(1, wide, 0, 0)
	m.Credit(1, 1<<20, 0)
	work := make([]machine.Work, 64)
	for i := range work {
		work[i] = turn("p", fmt.Sprint("r", i))
	}
	for i := 0; b.Loop(); i++ {
		m.Add(work[i%64])
		m.Done(1, machine.TurnWork)
		m.Credit(1, 1, 0)
	}
}
