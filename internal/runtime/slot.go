package runtime

import (
	"hash/maphash"
	"sync"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
)

// RunKey names a run in this process.
type RunKey = machine.RunKey

// slotShards is a power of two, so that a hash picks a shard by its low bits.
const slotShards = 64

// runOwner holds, per run, the queue of inputs and the cached state. That this process
// owns every run of the store, so that its queue is the run's only one, is assumed here
// and nowhere else: [runOwner.take] is where a run of another owner would be turned away.
// A slot lives as long as someone holds or waits for it or its state is cached. No
// cache.LRU: those in use do not go and count for no bytes.
//
// Lock and order: each shard has its mutex, held for a few instructions and never while
// anything else is waited for. A run's turn is no lock: it is had by one goroutine at a
// time, in the order of take, and may last as long as a commit.
type runOwner struct {
	seed   maphash.Seed
	shards [slotShards]slotShard
}

type slotShard struct {
	mu    sync.Mutex
	slots map[RunKey]*slot
	// lru is the sentinel of a ring of the idle slots, newest first. Their states
	// take bytes together; the shard's share of the cache is limit.
	lru    slot
	bytes  int64
	limit  int64
	queue  int
	tokens tokenTable
}

// slot is one run's place. All fields are guarded by the shard's mutex.
type slot struct {
	key RunKey
	// busy: an input has its turn.
	busy bool
	// unsure: its commit is under way, so that the store may hold a newer state
	// than this one already, and show its records.
	unsure       bool
	first, last  *waiter
	waiting      int
	state        *machine.State
	program      *packcache.Program
	bytes        int64
	newer, older *slot
}

// waiter is one input that waits for its turn.
type waiter struct {
	// granted gets one value when the turn is the waiter's.
	granted chan struct{}
	next    *waiter
}

var waiters = sync.Pool{New: func() any { return &waiter{granted: make(chan struct{}, 1)} }}

func newRunOwner(queueLimit int, cacheBytes int64) *runOwner {
	s := &runOwner{seed: maphash.MakeSeed()}
	for i := range s.shards {
		shard := &s.shards[i]
		shard.slots = make(map[RunKey]*slot)
		shard.lru.newer, shard.lru.older = &shard.lru, &shard.lru
		shard.limit = max(cacheBytes/slotShards, 1)
		shard.queue = queueLimit
		shard.tokens = newTokenTable()
	}
	return s
}

func (s *runOwner) shard(key RunKey) *slotShard {
	return &s.shards[maphash.String(s.seed, key.ID)&(slotShards-1)]
}

// take asks for the run's turn. With a nil waiter the turn is the caller's at
// once; otherwise it is when the waiter is granted. Every turn must be given
// back with release.
func (s *runOwner) take(key RunKey) (*slot, *waiter, error) {
	shard := s.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	sl := shard.slots[key]
	if sl == nil {
		sl = &slot{key: key, busy: true}
		shard.slots[key] = sl
		return sl, nil, nil
	}
	if !sl.busy {
		sl.busy = true
		shard.unlink(sl)
		return sl, nil, nil
	}
	if sl.waiting >= shard.queue {
		return nil, nil, queueFull(shard.queue)
	}
	w := waiters.Get().(*waiter)
	sl.push(w)
	return sl, w, nil
}

// wait takes the run's turn, however long it lasts until it comes.
func (s *runOwner) wait(key RunKey) (*slot, error) {
	sl, w, err := s.take(key)
	if w != nil {
		<-w.granted
		waiters.Put(w)
	}
	return sl, err
}

// release ends the turn of a slot: the state replaces the cached one (nil
// forgets it) and the next waiter, if any, is granted.
func (s *runOwner) release(sl *slot, state *machine.State, prog *packcache.Program) {
	shard := s.shard(sl.key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	sl.state, sl.program, sl.unsure = state, prog, false
	if w := sl.pop(); w != nil {
		w.granted <- struct{}{}
		return
	}
	sl.busy = false
	if state == nil || state.Status.Terminal() {
		delete(shard.slots, sl.key)
		return
	}
	sl.bytes = stateBytes(state)
	shard.link(sl)
	shard.evict()
}

// committing begins a commit in the turn of a slot: until its outcome is known,
// only the store knows which state is the newest that can be read.
func (s *runOwner) committing(sl *slot) {
	shard := s.shard(sl.key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	sl.unsure = true
}

// committed shows the state that was stored, before the turn is given back.
func (s *runOwner) committed(sl *slot, state *machine.State) {
	shard := s.shard(sl.key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	sl.state, sl.unsure = state, false
}

// peek returns the cached state of a run, or nil. It is never older than the
// last answer that was given, nor than a record that the store has shown.
func (s *runOwner) peek(key RunKey) *machine.State {
	shard := s.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if sl := shard.slots[key]; sl != nil && !sl.unsure {
		return sl.state
	}
	return nil
}

func (sl *slot) push(w *waiter) {
	w.next = nil
	if sl.last == nil {
		sl.first = w
	} else {
		sl.last.next = w
	}
	sl.last = w
	sl.waiting++
}

func (sl *slot) pop() *waiter {
	w := sl.first
	if w == nil {
		return nil
	}
	sl.first = w.next
	if sl.first == nil {
		sl.last = nil
	}
	sl.waiting--
	return w
}

// link makes an idle slot the newest of the ring.
func (sh *slotShard) link(sl *slot) {
	sl.older, sl.newer = sh.lru.older, &sh.lru
	sl.older.newer, sh.lru.older = sl, sl
	sh.bytes += sl.bytes
}

func (sh *slotShard) unlink(sl *slot) {
	sl.newer.older, sl.older.newer = sl.older, sl.newer
	sl.newer, sl.older = nil, nil
	sh.bytes -= sl.bytes
}

// evict drops the oldest idle slots until the shard keeps to its share; one
// stays, so that a run larger than the share is not loaded for each input.
func (sh *slotShard) evict() {
	for sh.bytes > sh.limit && sh.lru.newer != sh.lru.older {
		oldest := sh.lru.newer
		sh.unlink(oldest)
		delete(sh.slots, oldest.key)
	}
}

func queueFull(limit int) error {
	return &machine.Refusal{
		Code: machine.CodeResourceExhausted, Reason: "QUEUE_FULL", Field: "run_id",
		Message: "too many inputs wait for this run", Limit: int64(limit), Got: int64(limit) + 1,
		RetryAfter: queueRetry,
	}
}

// queueRetry is the pause asked of a caller that met a full queue, nanoseconds.
const queueRetry = 50_000_000

// stateBytes estimates what a cached state holds in memory.
func stateBytes(s *machine.State) int64 {
	const (
		fixed = 900 // the struct, the slot, its key and map entry
		row   = 64  // a count, label or conversation with its strings
		step  = 320
		slot  = 160
	)
	rows := len(s.Visits) + len(s.Edges) + len(s.Labels) + len(s.Queue) + len(s.Conversations)
	return int64(fixed + row*rows + step*len(s.Steps) + slot*len(s.Artifacts))
}
