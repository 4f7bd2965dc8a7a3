package dispatch

import (
	"cmp"
	"slices"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// These constants bound one answer of [Dispatcher.List].
const (
	maxListedWorkers = 1000
	maxListedClasses = 1000
	// maxListedHeld bounds the turns, and the steps, that are listed for one worker.
	maxListedHeld = 100
)

// WorkerView describes a connected worker.
type WorkerView struct {
	ID, Principal, Client string
	Offer                 machine.WorkOffer
	// Turns and Steps are the turns and steps that the worker has, ordered by run. At most 100 of each are listed.
	Turns []HeldTurn
	Steps []StepLease
	// HeldTurns and HeldSteps are the numbers of all turns and steps that the worker has, including those that are not
	// listed.
	HeldTurns, HeldSteps int
	// ConnectedAt is the time when the worker connected, and SeenAt the time of its last request, both in Unix
	// nanoseconds.
	ConnectedAt, SeenAt int64
	Draining            bool
	// Serving is the number of runs that the worker serves (executes alone).
	Serving int
	// TurnCounts and StepCounts count the work of the worker since ConnectedAt. LastFailure is the last turn or step
	// that it failed or lost. It is nil if there is none.
	TurnCounts, StepCounts WorkCounts
	LastFailure            *Failure
	// FailingMore reports whether the worker fails more than its peers, which are the other connected workers that
	// received work of the same class.
	FailingMore bool
}

// HeldTurn is the lease of a turn, without its token.
type HeldTurn struct {
	TurnLease
	// Since is the time when the turn was assigned, in Unix nanoseconds.
	Since int64
}

// ReadyWork is the amount of work of one class that no worker has yet, and the number of connected workers that can
// execute such work.
type ReadyWork struct {
	Class          machine.WorkClass
	Count, Workers int
}

// Listing contains the workers and the ready work of a namespace at one moment.
type Listing struct {
	// Workers are the connected workers, ordered by id and principal, at most 1000. Total is the number of all
	// connected workers.
	Workers []WorkerView
	Total   int
	// Ready is the ready work by class, the largest amount first, at most 1000 classes.
	Ready []ReadyWork
}

// List returns the connected workers and the ready work of a namespace. The result is empty until the first worker of
// the namespace connects. Errors: PERMISSION_DENIED SCOPE_MISSING; NOT_FOUND NAMESPACE_NOT_FOUND.
func (r *Dispatcher) List(call runtime.Call) (Listing, error) {
	ns, err := r.cfg.Engine.Admit(call, policy.RunsRead|policy.RunsWrite)
	if err != nil {
		return Listing{}, err
	}
	sp := r.shard(ns)
	if sp == nil {
		return Listing{}, nil
	}
	list := sp.list()
	slices.SortFunc(list.Workers, func(a, b WorkerView) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Principal, b.Principal))
	})
	slices.SortFunc(list.Ready, func(a, b ReadyWork) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), compareClasses(&a.Class, &b.Class))
	})
	list.Workers = list.Workers[:min(len(list.Workers), maxListedWorkers)]
	list.Ready = list.Ready[:min(len(list.Ready), maxListedClasses)]
	return list, nil
}

// compareClasses orders classes of work that have the same amount of ready work, so that the order of a list is fixed.
func compareClasses(a, b *machine.WorkClass) int {
	return cmp.Or(
		cmp.Compare(a.PackID, b.PackID), cmp.Compare(a.PackVersion, b.PackVersion), cmp.Compare(a.Digest, b.Digest),
		cmp.Compare(a.Prompt, b.Prompt), cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Tool, b.Tool),
	)
}

// list copies the data of the listing under the lock of the shard. The caller sorts and truncates it without the lock.
func (sp *namespaceShard) list() Listing {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	list := Listing{Total: len(sp.workers)}
	more := sp.failingMore()
	for _, w := range sp.workers {
		view := w.view()
		view.FailingMore = more[w]
		list.Workers = append(list.Workers, view)
	}
	sp.matcher.Queues(func(class machine.WorkClass, count, workers int) {
		list.Ready = append(list.Ready, ReadyWork{Class: class, Count: count, Workers: workers})
	})
	return list
}

// view returns the description of the worker for a listing. The caller holds the lock of the shard.
func (w *Worker) view() WorkerView {
	out := WorkerView{
		ID: w.name.id, Principal: w.name.principal, Client: w.client, Offer: w.offer, Draining: w.drains,
		ConnectedAt: w.since, SeenAt: w.seen.Load(), HeldTurns: len(w.turns), HeldSteps: len(w.steps), Serving: len(w.served),
		TurnCounts: w.counts.turns, StepCounts: w.counts.steps, LastFailure: w.counts.last,
	}
	for _, lease := range w.turns {
		if len(out.Turns) == maxListedHeld {
			break
		}
		held := HeldTurn{TurnLease: lease.snapshot(), Since: lease.at}
		held.Token = ""
		out.Turns = append(out.Turns, held)
	}
	for _, lease := range w.steps {
		if len(out.Steps) == maxListedHeld {
			break
		}
		held := lease.snapshot()
		held.Token = ""
		out.Steps = append(out.Steps, held)
	}
	slices.SortFunc(out.Turns, func(a, b HeldTurn) int { return cmp.Compare(a.RunID, b.RunID) })
	slices.SortFunc(out.Steps, func(a, b StepLease) int {
		return cmp.Or(cmp.Compare(a.RunID, b.RunID), cmp.Compare(a.Step, b.Step))
	})
	return out
}

// Seen records that the worker has sent a message, which proves that it is alive.
func (w *Worker) Seen() { w.seen.Store(w.shard.now()) }
