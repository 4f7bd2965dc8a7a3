package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/render"
)

// Dispatcher assigns ready turns and pending steps to connected workers. All of its data is in
// memory. When the first worker of a namespace connects, the dispatcher scans the store for ready
// work; after that it follows each commit. The only stored fact is the holder of a step
// (step_holder.go). Safe for concurrent use.
//
// Locks: mu guards the map of shards and is read on every commit. The mutex of a shard guards
// everything in the shard. It is taken inside the lock of a run, never the other way round.
type Dispatcher struct {
	cfg Config
	// mu guards shards. The map changes only when the first worker of a namespace connects.
	mu     sync.RWMutex
	shards map[uint32]*namespaceShard
	timers *timers
	// started is the clock's Elapsed at [New].
	started time.Duration
	// waiting bounds the ready work held in memory, for each pack of a namespace.
	waiting int
}

// New returns a Dispatcher and starts no goroutine. Zero fields of cfg take their default.
func New(cfg Config) (*Dispatcher, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Dispatcher{
		cfg: cfg, shards: make(map[uint32]*namespaceShard), timers: newTimers(cfg.Clock),
		started: cfg.Clock.Elapsed(), waiting: maxWaiting,
	}, nil
}

// Run ends leases and grace periods when they expire. It returns when ctx ends.
func (r *Dispatcher) Run(ctx context.Context) { r.timers.run(ctx) }

// shard returns the shard of the namespace, or nil if no worker has connected to it.
func (r *Dispatcher) shard(ns uint32) *namespaceShard {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.shards[ns]
}

// open returns the shard of the namespace and creates it if needed. The first worker that connects
// starts the scan for ready work.
func (r *Dispatcher) open(ns uint32) *namespaceShard {
	r.mu.Lock()
	defer r.mu.Unlock()
	if sp := r.shards[ns]; sp != nil {
		return sp
	}
	sp := newNamespaceShard(r, ns)
	r.shards[ns] = sp
	return sp
}

// OnCommit updates the work of a run after a commit. It runs under the lock of the run, so it sees
// the states of a run in order.
func (r *Dispatcher) OnCommit(c *runtime.Commit) {
	sp := r.shard(c.Key.Namespace)
	if sp == nil {
		return
	}
	s := c.Batch.State
	sp.mu.Lock()
	run := sp.runs[s.RunID]
	if run == nil && !rules.Ready(c.Graph, s) && !hasPending(s) {
		sp.mu.Unlock()
		return
	}
	told := sp.settle(s, c.Graph, c, issued(c))
	sp.mu.Unlock()
	if told != nil {
		go told()
	}
}

func hasPending(s *machine.State) bool {
	for i := range s.Steps {
		if forWorkers(&s.Steps[i]) {
			return true
		}
	}
	return false
}

// Drain stops all assignments because the server is shutting down. Answers to work that was
// assigned before are still accepted.
func (r *Dispatcher) Drain() {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, sp := range r.shards {
		sp.mu.Lock()
		for id := range sp.workers {
			sp.matcher.Drain(id)
		}
		sp.draining = true
		sp.mu.Unlock()
	}
}

// Output returns the piece of a run's turn output that follows a position. It returns false if there is no such piece yet.
func (r *Dispatcher) Output(key runtime.RunKey, after render.OutputPosition) (render.OutputChunk, bool) {
	sp := r.shard(key.Namespace)
	if sp == nil {
		return render.OutputChunk{}, false
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.outputs.after(key.ID, after)
}

// AssignedTurn returns the number of the turn of a run that a worker, or the holder of a turn token,
// has received. 0 means that no turn is assigned. If the assignee disconnects, its turn counts as
// assigned until the turn is known to be over.
//
// An assignment is not recorded in the journal. Until the first record of the execution, only this
// process knows of the assignment. Another process would assign the turn again.
func (r *Dispatcher) AssignedTurn(key runtime.RunKey) uint64 {
	if turn := r.cfg.Engine.TokenOut(key); turn != 0 {
		return turn
	}
	sp := r.shard(key.Namespace)
	if sp == nil {
		return 0
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if run := sp.runs[key.ID]; run != nil && run.turn != nil && run.turn.assigned {
		return run.turn.seq
	}
	return 0
}

// IsTurnAssigned reports whether the open turn of a state is assigned, see [Dispatcher.AssignedTurn].
func (r *Dispatcher) IsTurnAssigned(s *machine.State) bool {
	return s.Turn != nil && r.AssignedTurn(runtime.RunKey{Namespace: s.Namespace, ID: s.RunID}) == s.Turn.Seq
}
