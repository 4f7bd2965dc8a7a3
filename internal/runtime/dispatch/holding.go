package dispatch

import (
	"cmp"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// Held describes the worker that has a turn or a step of a run. Times are in Unix nanoseconds. A time
// of 0 means that there is none, or that it is not known.
type Held struct {
	Worker string
	// Sidecar reports whether the worker is part of the sidecar itself.
	Sidecar bool
	// Since is the time when the work was assigned. Seen is the time of the last request of the worker.
	// Output is the time of the last output of the turn.
	Since, Seen, Output int64
	// Until is the time when the lease of a turn expires, unless a heartbeat extends it.
	Until int64
	// Lost reports whether the worker that has a step has disconnected. The step waits until the worker
	// reconnects.
	Lost bool
}

// Holding says which workers have the work of a run.
type Holding struct {
	// Turn is the worker that has the open turn. It is nil if no worker has it.
	Turn *Held
	// Steps are the workers that have steps, by the number of the step.
	Steps map[uint32]Held
}

// Holding returns which workers have the open turn and the steps of a run.
func (r *Dispatcher) Holding(key runtime.RunKey) Holding {
	sp := r.shard(key.Namespace)
	if sp == nil {
		return Holding{}
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	run := sp.runs[key.ID]
	if run == nil {
		return Holding{}
	}
	var out Holding
	if run.turn != nil && run.turn.lease != nil {
		lease := run.turn.lease
		held := lease.worker.held(lease.at)
		held.Until, held.Output = lease.deadline, lease.outputAt
		out.Turn = &held
	}
	for n, step := range run.steps {
		if out.Steps == nil {
			out.Steps = make(map[uint32]Held, len(run.steps))
		}
		switch {
		case step.lease != nil:
			out.Steps[n] = step.lease.worker.held(step.lease.at)
		case step.reconnectTimer != nil:
			out.Steps[n] = Held{Worker: step.lostBy.Worker, Lost: true}
		}
	}
	return out
}

func (w *Worker) held(since int64) Held {
	return Held{Worker: w.name.id, Sidecar: w.offer.Sidecar, Since: since, Seen: w.seen.Load()}
}

// UnfitCause is the reason why a connected worker does not get a piece of ready work.
type UnfitCause uint8

const (
	// UnfitOtherPack means that the worker offers to execute only other packs.
	UnfitOtherPack UnfitCause = iota + 1
	// UnfitNotServed means that the worker does not offer to execute the prompt, the agent or the tool.
	UnfitNotServed
	// UnfitNoCapacity means that the worker offers to execute no turns, or no steps.
	UnfitNoCapacity
	// UnfitDraining means that the worker is stopping.
	UnfitDraining
	// UnfitFull means that the worker has as much work as its capacity allows.
	UnfitFull
	// UnfitNoCredit means that the worker has not requested more work.
	UnfitNoCredit
	// UnfitFree means that the worker can execute the work and has free capacity, so that it gets the
	// work next.
	UnfitFree
)

// Unfit is a connected worker that does not get a piece of ready work, and the reason.
type Unfit struct {
	Worker string
	Cause  UnfitCause
	// Load says what fills the worker if the cause is UnfitFull.
	Load Load
}

// Load is the work that fills a worker.
type Load struct {
	// Work is the number of its turns, or of its steps if a step found it full. Turns that it serves alone are not counted.
	Work int
	// ApprovalWaits is the number of those turns in which a call waits for an approval. StepWaits is the number of the others in which a
	// call of a tool or an agent has no answer yet. Both are 0 for steps.
	ApprovalWaits, StepWaits int
}

// turnWait says what an open turn waits for, although a worker has it.
type turnWait uint8

const (
	waitsForNothing turnWait = iota
	waitsForApproval
	waitsForStep
)

// waitOf returns what the calls of the open turn of a state wait for.
func waitOf(s *machine.State) turnWait {
	if rules.FirstHeld(s.Steps) != nil {
		return waitsForApproval
	}
	for i := range s.Steps {
		if p := &s.Steps[i]; p.Status == machine.StepStatusPending && p.Model == nil && !p.ByCaller {
			return waitsForStep
		}
	}
	return waitsForNothing
}

// maxUnfit bounds the number of workers that [Dispatcher.Unfit] returns.
const maxUnfit = 5

// TurnClass returns the class of work to which the open turn of a state belongs.
func (r *Dispatcher) TurnClass(s *machine.State, g *machine.Graph) machine.WorkClass {
	return turnClass(s, g)
}

// StepClass returns the class of work to which a step of a state belongs.
func (r *Dispatcher) StepClass(s *machine.State, tool string) machine.WorkClass {
	return r.stepClass(s, tool)
}

// Unfit returns why the connected workers of a namespace do not get a piece of ready work of the given class. Work of the sidecar itself
// is compared only with the sidecar's own workers, and other work only with other workers. It returns at most 5 workers, ordered by id.
// total is the number of all workers that were compared.
func (r *Dispatcher) Unfit(ns uint32, class *machine.WorkClass) (workers []Unfit, total int) {
	sp := r.shard(ns)
	if sp == nil {
		return nil, 0
	}
	sp.mu.Lock()
	for _, w := range sp.workers {
		if w.offer.Sidecar != class.Sidecar {
			continue
		}
		total++
		// Only the workers with the lowest ids are kept, so that a large number of workers needs little
		// memory.
		unfit := Unfit{Worker: w.name.id, Cause: sp.unfit(w, class)}
		if unfit.Cause == UnfitFull {
			unfit.Load = sp.load(w, class.Kind)
		}
		workers = append(workers, unfit)
		if len(workers) >= 20*maxUnfit {
			workers = firstUnfit(workers)
		}
	}
	sp.mu.Unlock()
	return firstUnfit(workers), total
}

func firstUnfit(workers []Unfit) []Unfit {
	slices.SortFunc(workers, func(a, b Unfit) int { return cmp.Compare(a.Worker, b.Worker) })
	return workers[:min(len(workers), maxUnfit)]
}

// unfit returns why a worker does not get ready work of the given class. The caller holds the lock of
// the shard.
func (sp *namespaceShard) unfit(w *Worker, class *machine.WorkClass) UnfitCause {
	most := w.offer.Turns
	if class.Kind == machine.StepWork {
		most = w.offer.Steps
	}
	at := sp.matcher.workers[w.id]
	switch {
	case w.drains || sp.draining:
		return UnfitDraining
	case !w.offer.ServesPack(class):
		return UnfitOtherPack
	case most == 0:
		return UnfitNoCapacity
	case !w.offer.Serves(class):
		return UnfitNotServed
	case at != nil && at.of(class.Kind).held >= most:
		return UnfitFull
	case at != nil && at.of(class.Kind).credits == 0:
		return UnfitNoCredit
	}
	return UnfitFree
}

// load returns what fills a worker. The caller holds the lock of the shard.
func (sp *namespaceShard) load(w *Worker, kind machine.WorkKind) (out Load) {
	if kind == machine.StepWork {
		out.Work = sp.matcher.workers[w.id].of(kind).held
		return out
	}
	for _, lease := range w.turns {
		if lease.served {
			continue
		}
		out.Work++
		run := sp.runs[lease.run]
		if run == nil || run.turn == nil || run.turn.lease != lease {
			continue
		}
		switch run.turn.wait {
		case waitsForApproval:
			out.ApprovalWaits++
		case waitsForStep:
			out.StepWaits++
		}
	}
	return out
}
