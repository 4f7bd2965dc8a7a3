package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// Dispatcher assigns ready turns and pending steps to connected workers. All of its data is in memory, except which
// worker has a step (step_holder.go). When the first worker of a namespace connects, the dispatcher reads the ready
// work from the store; after that it follows each commit. Safe for concurrent use.
//
// Locks: mu guards the map of shards. The mutex of a shard guards everything in the shard. It is taken while the lock
// of a run is held, never the other way round.
type Dispatcher struct {
	cfg Config
	// mu guards the map of shards, which is read on every commit. The map changes only when the first worker of a
	// namespace connects.
	mu     sync.RWMutex
	shards map[uint32]*namespaceShard
	timers *timers
	// started is the value of Clock.Elapsed at the call of [New].
	started time.Duration
	// waiting bounds, for each pack of a namespace, the ready work that is kept in memory.
	waiting int
}

// New returns a Dispatcher and starts no goroutine. Zero fields of cfg get their defaults.
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

// open returns the shard of the namespace and creates it if needed. The shard reads the ready work from the store when
// its first worker connects.
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

// OnCommit updates the turn and the steps of a run after a commit. It is called under the lock of the run, so it
// receives the states of a run in order.
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

// Drain stops all assignments because the server is shutting down. Answers to work that was already assigned are still
// accepted.
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

// Output returns the next piece of the output of a run's turn after a position. It returns false if there is none yet.
func (r *Dispatcher) Output(key runtime.RunKey, after runtime.OutputPosition) (runtime.OutputChunk, bool) {
	sp := r.shard(key.Namespace)
	if sp == nil {
		return runtime.OutputChunk{}, false
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.outputs.after(key.ID, after)
}

// AssignedTurn returns the seq of a run's turn that a worker or a caller with a turn token has received. 0 means that
// no turn is assigned. If the receiver disconnects, the turn counts as assigned until it is known to be over.
//
// The journal does not contain assignments. Until the execution makes its first record, only this process knows of the
// assignment, and another process would assign the turn a second time.
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

// IsTurnAssigned reports whether an executor has received the open turn of a state, see [Dispatcher.AssignedTurn].
func (r *Dispatcher) IsTurnAssigned(s *machine.State) bool {
	return s.Turn != nil && r.AssignedTurn(runtime.RunKey{Namespace: s.Namespace, ID: s.RunID}) == s.Turn.Seq
}
