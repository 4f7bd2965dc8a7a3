package dispatch

import (
	"context"
	"sync"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// namespaceShard contains the work and the workers of one namespace. It assumes that no other process assigns work of
// the namespace. The mutex mu guards all fields of the shard and of its runs, leases and workers. Code that holds mu
// never waits for a disk, a network or the lock of a run.
type namespaceShard struct {
	dispatcher *Dispatcher
	ns         uint32

	mu      sync.Mutex
	matcher *Matcher
	workers map[uint64]*Worker
	names   map[workerName]*Worker
	runs    map[string]*workRun
	last    uint64
	// waiting is, for each pack, the amount of ready work in memory. Ready work above a bound stays only in the store.
	// left is, for each pack, the first run whose turn stayed in the store, and leftSteps are the packs with steps that
	// stayed there.
	waiting   map[string]int
	left      map[string]string
	leftSteps map[string]bool
	draining  bool
	// scanned reports whether reading the ready work from the store has started.
	scanned bool
	// disconnected are the steps whose worker has disconnected and may reconnect, with the ids of their runs.
	disconnected map[*stepWork]string
	sticky       stickyNames
	outputs      outputs
	// counts has, for each of the worker processes that connected most recently, the numbering of the steps that are
	// sent to the process.
	counts *cache.LRU[machine.StepHolder, *outgoingSteps]
}

// maxWaiting bounds, for each pack, the ready work in memory. Other ready work is read from the store as soon as there
// is space for it.
const maxWaiting = 16384

// workRun is a run with an open turn or pending steps that workers may execute.
type workRun struct {
	id string
	// seq is the seq of the run's newest record that the shard knows.
	seq   uint64
	turn  *turnWork
	steps map[uint32]*stepWork
	// serving is set if one worker serves (executes alone) the run. If it is nil, no worker has the run for itself.
	serving *serving
}

// turnWork is an open turn that workers execute. It exists until the turn ends, even if the turn is suspended or waits for its next
// attempt, so that its deliveries to workers are counted over the whole time. It is dropped earlier if the turn stays only in the store,
// or by workRun.forget.
type turnWork struct {
	seq     uint64
	attempt int
	class   machine.WorkClass
	// lease is the current delivery of the turn to a worker. It is nil if no worker has the turn.
	lease *turnLease
	// past are earlier leases of the current attempt. A completion under one of them may still be accepted.
	past []*turnLease
	// deliveries is the number of the last delivery (assignment of the turn to a worker). lost is the number of
	// deliveries that ended because the connection of the worker broke.
	deliveries int
	lost       int
	// assigned reports whether a worker has received the turn.
	assigned bool
	// paused reports whether the run is paused. The turn of a paused run is not offered.
	paused bool
	// wait says what a call of the turn waits for.
	wait turnWait
}

// stepWork is a pending step.
type stepWork struct {
	step    uint32
	attempt int
	turn    uint64
	class   machine.WorkClass
	lease   *stepLease
	// reconnectTimer ends the time in which the step waits for its disconnected worker. It is nil if the step does not
	// wait for a worker.
	reconnectTimer *timer
	// lostBy is the disconnected worker that had the step.
	lostBy machine.StepHolder
	// pause is the timer until the current attempt is due. It is nil if the attempt is due.
	pause *timer
	// row is the outbox row that stores the pending step and its holder. storing reports whether a new holder is being
	// stored in this row. As long as it is true, the step must not be offered to workers.
	row     machine.OutboxRow
	storing bool
	// limited reports whether the step waits until the operator's rate limits allow it.
	limited bool
}

func newNamespaceShard(r *Dispatcher, ns uint32) *namespaceShard {
	sp := &namespaceShard{
		dispatcher: r, ns: ns, workers: make(map[uint64]*Worker), names: make(map[workerName]*Worker),
		runs: make(map[string]*workRun), waiting: make(map[string]int),
		left: make(map[string]string), leftSteps: make(map[string]bool),
		disconnected: make(map[*stepWork]string),
		sticky:       newStickyNames(), outputs: newOutputs(), counts: cache.New[machine.StepHolder, *outgoingSteps](maxCounts),
	}
	sp.matcher = NewMatcher(sp)
	return sp
}

func (sp *namespaceShard) key(run string) runtime.RunKey {
	return runtime.RunKey{Namespace: sp.ns, ID: run}
}

func (sp *namespaceShard) run(id string) *workRun {
	run := sp.runs[id]
	if run == nil {
		run = &workRun{id: id, steps: make(map[uint32]*stepWork)}
		sp.runs[id] = run
	}
	return run
}

// settle updates the shard's data about the work of a run from a state. c is the commit that made the state, or nil if
// the state was read from the store. held are the known holders of the run's steps. settle returns nil or a function
// that the caller must call after it has released the lock.
func (sp *namespaceShard) settle(s *machine.State, g *machine.Graph, c *runtime.Commit, held holders) func() {
	run := sp.run(s.RunID)
	if s.Seq < run.seq {
		return nil
	}
	run.seq = s.Seq
	sp.endWork(run, s, c)
	told := sp.answered(run, c)
	sp.offerTurn(run, s, g)
	if run.turn != nil {
		run.turn.wait = waitOf(s)
	}
	if !sp.offerSteps(run, s, g, held) && c != nil {
		go sp.refresh(run.id)
	}
	if run.serving != nil {
		sp.fill(run.serving.worker)
	}
	sp.settleServing(run, s, g)
	run.forget(s)
	if run.turn == nil && len(run.steps) == 0 && run.serving == nil {
		delete(sp.runs, run.id)
	}
	return told
}

// endWork drops the turn and the steps that are no longer in the state of the run. It runs before work is offered, so
// that a worker that has finished a turn can get the next one.
func (sp *namespaceShard) endWork(run *workRun, s *machine.State, c *runtime.Commit) {
	for n, step := range run.steps {
		if !pendingAt(s, n, step.attempt) {
			sp.endStep(run, step, s, c)
		}
	}
	turn := run.turn
	if turn == nil {
		return
	}
	over := s.Turn == nil || s.Turn.Seq != turn.seq || s.Status.Terminal()
	if over || s.Turn.Attempt != turn.attempt || s.Turn.Suspended || s.Turn.NotBefore != 0 {
		sp.unlease(run, s, c)
	}
	if !over && s.Turn.Attempt != turn.attempt {
		turn.attempt, turn.past = s.Turn.Attempt, nil
	}
	if over {
		run.turn = nil
		sp.outputs.over(run.id, turn.seq)
	}
}

func pendingAt(s *machine.State, step uint32, attempt int) bool {
	if s.Status.Terminal() {
		return false
	}
	for i := range s.Steps {
		if p := &s.Steps[i]; p.Step == step {
			return p.Dispatchable() && p.Attempt == attempt
		}
	}
	return false
}

// offerTurn offers a ready turn to all workers, or sends it to the worker that serves the run. It withdraws a turn that is no longer ready
// and that no worker has.
func (sp *namespaceShard) offerTurn(run *workRun, s *machine.State, g *machine.Graph) {
	id := machine.WorkID{RunID: run.id}
	if run.turn != nil {
		run.turn.paused = s.Paused
	}
	if !run.ready(g, s) {
		if run.turn != nil && run.turn.lease == nil {
			sp.withdraw(id, run.turn.class)
		}
		return
	}
	turn := sp.track(run, s, g)
	if turn.lease != nil || sp.matcher.IsQueued(id) {
		return
	}
	if run.serving != nil {
		if !run.serving.worker.drains && !sp.draining {
			sp.leaseTurn(run.serving.worker, run, true)
		}
		return
	}
	if !sp.offer(machine.Work{WorkClass: turn.class, RunID: run.id, Turn: turn.seq, Attempt: turn.attempt}) {
		run.turn = nil
	}
}

// track returns the shard's data about the open turn of the state, and creates it if needed.
func (sp *namespaceShard) track(run *workRun, s *machine.State, g *machine.Graph) *turnWork {
	if run.turn == nil {
		run.turn = &turnWork{seq: s.Turn.Seq, attempt: s.Turn.Attempt, class: turnClass(s, g)}
	}
	run.turn.deliveries = max(run.turn.deliveries, s.Turn.Assigned.Delivery)
	return run.turn
}

func classOf(s *machine.State) machine.WorkClass {
	return machine.WorkClass{Digest: s.Digest, PackID: s.PackID, PackVersion: s.PackVersion}
}

// stepClass returns the class of work to which a step of a state belongs.
func (r *Dispatcher) stepClass(s *machine.State, tool string) machine.WorkClass {
	class := classOf(s)
	class.Kind, class.Tool = machine.StepWork, tool
	class.Sidecar = r.cfg.SidecarTool != nil && r.cfg.SidecarTool(tool)
	return class
}

// forWorkers reports whether workers may execute the step. It returns false for steps that an agent, a model or the
// caller executes.
func forWorkers(p *machine.ToolStep) bool {
	return p.Dispatchable() && !p.Delegation && p.Model == nil && !p.ByCaller
}

// offerSteps offers the pending steps of a run to workers. It returns false if it is not known yet which worker has a
// step, because the stored holder of the step was not read.
func (sp *namespaceShard) offerSteps(run *workRun, s *machine.State, g *machine.Graph, held holders) (all bool) {
	all = true
	for i := range s.Steps {
		p := &s.Steps[i]
		if !forWorkers(p) || s.Status.Terminal() {
			continue
		}
		step := run.steps[p.Step]
		if step == nil {
			holder, known := held[p.Step]
			if !known {
				all = false
				continue
			}
			step = &stepWork{step: p.Step, attempt: p.Attempt, turn: p.TurnSeq, class: sp.dispatcher.stepClass(s, p.Tool), row: outgoing(g, s, p.Step)}
			run.steps[p.Step] = step
			sp.awaitHolder(run, step, holder)
			sp.awaitDue(run, step)
		}
		if s.Paused {
			sp.withdraw(machine.WorkID{RunID: run.id, Step: step.step}, step.class)
		} else {
			sp.offerStep(run, step)
		}
		if step.lease == nil && step.reconnectTimer == nil && !step.storing && !step.limited {
			sp.unplace(run.id, step)
		}
	}
	return all
}

// offerStep offers a step to workers, unless a worker has it or its last worker may still reconnect.
func (sp *namespaceShard) offerStep(run *workRun, step *stepWork) {
	id := machine.WorkID{RunID: run.id, Step: step.step}
	if step.lease != nil || step.reconnectTimer != nil || step.pause != nil || step.storing || step.limited {
		return
	}
	if run.serving.servesStep(&step.class) {
		sp.withdraw(id, step.class)
		sp.leaseServed(run, step)
		return
	}
	if sp.matcher.IsQueued(id) {
		return
	}
	if !sp.offer(machine.Work{
		WorkClass: step.class, RunID: run.id, Turn: step.turn, Step: step.step, Attempt: step.attempt,
	}) {
		delete(run.steps, step.step)
	}
}

// offer adds work to the matcher. It returns false if the ready work of the pack in memory has reached its bound, so
// that the work stays only in the store.
func (sp *namespaceShard) offer(work machine.Work) bool {
	if sp.waiting[work.Digest] >= sp.dispatcher.waiting {
		sp.putOff(&work)
		return false
	}
	if last := sp.names[sp.sticky.of(work.RunID)]; last != nil {
		work.Last = last.id
	}
	sp.waiting[work.Digest]++
	sp.matcher.Add(work)
	return true
}

// withdraw removes work that no worker has yet from the matcher.
func (sp *namespaceShard) withdraw(id machine.WorkID, class machine.WorkClass) {
	if sp.matcher.IsQueued(id) {
		sp.matcher.Remove(id)
		sp.taken(class.Digest)
	}
}

// taken counts that ready work of a pack has left the matcher. If little work of the pack is left in memory, taken
// starts to read more from the store.
func (sp *namespaceShard) taken(digest string) {
	n := sp.waiting[digest] - 1
	if n > 0 {
		sp.waiting[digest] = n
	} else {
		delete(sp.waiting, digest)
	}
	if n > sp.dispatcher.waiting/4 {
		return
	}
	if from, more := sp.left[digest]; more {
		delete(sp.left, digest)
		go sp.resume(digest, from)
	}
	if sp.leftSteps[digest] {
		delete(sp.leftSteps, digest)
		go sp.scanSteps(context.Background())
	}
}

// Assign implements [Assigner]: it sends a turn or step to the worker to which the matcher has assigned it. The caller
// holds the lock of the shard.
func (sp *namespaceShard) Assign(worker uint64, work machine.Work) {
	sp.taken(work.Digest)
	w, run := sp.workers[worker], sp.runs[work.RunID]
	if work.Kind == machine.StepWork {
		sp.leaseStep(w, run, run.steps[work.Step], false)
		return
	}
	sp.leaseTurn(w, run, false)
}
