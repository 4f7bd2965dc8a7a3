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

// Dispatcher hands ready turns and pending steps to connected workers. All of it is
// memory: what is ready is found in the store when the first worker of a
// namespace connects, and followed commit by commit from then on. The one fact that is
// stored is to whom a step goes (see hold.go). Safe for concurrent use.
//
// Lock and order: spaces is read on every commit; a shard's own mutex guards all that is
// in it and is taken inside a run's turn, never the other way round.
type Dispatcher struct {
	cfg Config
	// spaces is written when a namespace gets its first worker.
	mu     sync.RWMutex
	shards map[uint32]*namespaceShard
	timers *timers
	// started is what the clock's Elapsed was when the room was made.
	started time.Duration
	// waiting bounds, per pack of a namespace, the ready work that is held in memory.
	waiting int
}

// New makes the room; it starts nothing. Zero fields of cfg take their default.
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

// Run ends leases and waits that run out, until ctx ends.
func (r *Dispatcher) Run(ctx context.Context) { r.timers.run(ctx) }

// shard is the namespace's, or nil if no worker ever connected to it.
func (r *Dispatcher) shard(ns uint32) *namespaceShard {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.shards[ns]
}

// open finds or makes the namespace's shard; its first worker makes it look for
// what is ready.
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

// OnCommit is told of a commit. It runs in the run's own turn, so that the states
// of a run are seen in their order.
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

// Drain assigns nothing more: the server is going, and answers to what is
// out are all that it still takes.
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

// Output is the next piece of the output of a run's turn behind a position; false:
// there is none yet.
func (r *Dispatcher) Output(key runtime.RunKey, after render.OutputPosition) (render.OutputChunk, bool) {
	sp := r.shard(key.Namespace)
	if sp == nil {
		return render.OutputChunk{}, false
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.outputs.after(key.ID, after)
}

// AssignedTurn is the turn of a run that was given to a worker, or to the holder of a token,
// and is not known to be over, also if that is lost since; 0 = none. That a turn was
// handed out is no record: the first record of its execution is what remains of it.
// Until then it is known to this process only, and another one hands the turn out anew.
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

// IsTurnAssigned says whether the open turn of a state was handed out, see [Dispatcher.AssignedTurn].
func (r *Dispatcher) IsTurnAssigned(s *machine.State) bool {
	return s.Turn != nil && r.AssignedTurn(runtime.RunKey{Namespace: s.Namespace, ID: s.RunID}) == s.Turn.Seq
}
