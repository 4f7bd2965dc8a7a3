package runtime

import (
	"hash/maphash"
	"sync"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
)

// RunKey identifies a run in this process.
type RunKey = machine.RunKey

// runShards is the number of shards. It is a power of two, so that the low bits of a hash select a
// shard.
const runShards = 64

// runTable holds the queue of inputs and the cached state of each run. It assumes that this process
// owns every run of the store, so that there is no other queue for a run. No other code in this package
// depends on this assumption: [runTable.acquire] is the place where a run of another owner would be
// rejected. An entry exists while an input holds or waits for the execution slot of the run, or while the state
// of the run is cached. cache.LRU is not used, because entries in use must not be evicted and do not
// count in the size of the cache.
//
// Locks and order: each shard has a mutex, which is held for a few instructions and never during a
// wait. The execution slot of a run is not a mutex. One goroutine at a time holds the slot, in the order
// of the calls of acquire, and keeps it for the duration of a commit.
type runTable struct {
	seed   maphash.Seed
	shards [runShards]runShard
}

type runShard struct {
	mu      sync.Mutex
	entries map[RunKey]*runEntry
	// lru is the sentinel of a ring of the idle entries, the newest first. bytes is the size of their
	// states. limit is the shard's share of the cache.
	lru    runEntry
	bytes  int64
	limit  int64
	queue  int
	tokens tokenTable
}

// runEntry holds the queue and the cached state of one run. The mutex of the shard guards all fields.
type runEntry struct {
	key RunKey
	// busy reports whether an input holds the execution slot.
	busy bool
	// commitInFlight reports whether a commit of the run is in progress. Then the store may already
	// contain and return a newer state than the cached one.
	commitInFlight bool
	first, last    *waiter
	waiting        int
	state          *machine.State
	program        *packcache.Program
	bytes          int64
	newer, older   *runEntry
}

// waiter is one input that waits for the execution slot of its run.
type waiter struct {
	// granted receives one value when the waiter has the slot.
	granted chan struct{}
	next    *waiter
}

var waiters = sync.Pool{New: func() any { return &waiter{granted: make(chan struct{}, 1)} }}

func newRunTable(queueLimit int, cacheBytes int64) *runTable {
	s := &runTable{seed: maphash.MakeSeed()}
	for i := range s.shards {
		shard := &s.shards[i]
		shard.entries = make(map[RunKey]*runEntry)
		shard.lru.newer, shard.lru.older = &shard.lru, &shard.lru
		shard.limit = max(cacheBytes/runShards, 1)
		shard.queue = queueLimit
		shard.tokens = newTokenTable()
	}
	return s
}

func (s *runTable) shard(key RunKey) *runShard {
	return &s.shards[maphash.String(s.seed, key.ID)&(runShards-1)]
}

// acquire requests the run's execution slot. If the returned waiter is nil, the caller has the slot. Otherwise it
// has the slot when the waiter is granted. The caller must free every slot with release.
func (s *runTable) acquire(key RunKey) (*runEntry, *waiter, error) {
	shard := s.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	entry := shard.entries[key]
	if entry == nil {
		entry = &runEntry{key: key, busy: true}
		shard.entries[key] = entry
		return entry, nil, nil
	}
	if !entry.busy {
		entry.busy = true
		shard.unlink(entry)
		return entry, nil, nil
	}
	if entry.waiting >= shard.queue {
		return nil, nil, queueFull(shard.queue)
	}
	w := waiters.Get().(*waiter)
	entry.push(w)
	return entry, w, nil
}

// acquireWait acquires the run's execution slot. It waits without a time limit.
func (s *runTable) acquireWait(key RunKey) (*runEntry, error) {
	entry, w, err := s.acquire(key)
	if w != nil {
		<-w.granted
		waiters.Put(w)
	}
	return entry, err
}

// release frees the execution slot of an entry. state replaces the cached state; if it is nil, the cached state is
// removed. If another input waits, it gets the slot.
func (s *runTable) release(entry *runEntry, state *machine.State, prog *packcache.Program) {
	shard := s.shard(entry.key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	entry.state, entry.program, entry.commitInFlight = state, prog, false
	if w := entry.pop(); w != nil {
		w.granted <- struct{}{}
		return
	}
	entry.busy = false
	if state == nil || state.Status.Terminal() {
		delete(shard.entries, entry.key)
		return
	}
	entry.bytes = stateBytes(state)
	shard.link(entry)
	shard.evict()
}

// committing marks the start of a commit. The caller holds the execution slot of the entry. Until the outcome of
// the commit is known, only the store knows which state is the newest readable one.
func (s *runTable) committing(entry *runEntry) {
	shard := s.shard(entry.key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	entry.commitInFlight = true
}

// committed publishes the stored state. It must be called before the slot is released.
func (s *runTable) committed(entry *runEntry, state *machine.State) {
	shard := s.shard(entry.key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	entry.state, entry.commitInFlight = state, false
}

// cached returns the cached state of a run, or nil. The state is never older than the last answer to a
// caller, nor older than a record that the store has returned.
func (s *runTable) cached(key RunKey) *machine.State {
	shard := s.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if entry := shard.entries[key]; entry != nil && !entry.commitInFlight {
		return entry.state
	}
	return nil
}

func (entry *runEntry) push(w *waiter) {
	w.next = nil
	if entry.last == nil {
		entry.first = w
	} else {
		entry.last.next = w
	}
	entry.last = w
	entry.waiting++
}

func (entry *runEntry) pop() *waiter {
	w := entry.first
	if w == nil {
		return nil
	}
	entry.first = w.next
	if entry.first == nil {
		entry.last = nil
	}
	entry.waiting--
	return w
}

// link makes an idle entry the newest entry of the ring.
func (sh *runShard) link(entry *runEntry) {
	entry.older, entry.newer = sh.lru.older, &sh.lru
	entry.older.newer, sh.lru.older = entry, entry
	sh.bytes += entry.bytes
}

func (sh *runShard) unlink(entry *runEntry) {
	entry.newer.older, entry.older.newer = entry.older, entry.newer
	entry.newer, entry.older = nil, nil
	sh.bytes -= entry.bytes
}

// evict drops the oldest idle entries until the shard is within its share of the cache. It always keeps
// one entry, so that a run that is larger than the share does not have to be loaded for each input.
func (sh *runShard) evict() {
	for sh.bytes > sh.limit && sh.lru.newer != sh.lru.older {
		oldest := sh.lru.newer
		sh.unlink(oldest)
		delete(sh.entries, oldest.key)
	}
}

func queueFull(limit int) error {
	return &machine.Error{
		Code: machine.CodeResourceExhausted, Reason: "QUEUE_FULL", Field: "run_id",
		Message: "too many inputs wait for this run", Limit: int64(limit), Got: int64(limit) + 1,
		RetryAfter: queueRetry,
	}
}

// queueRetry is the pause that a caller should make after QUEUE_FULL, in nanoseconds.
const queueRetry = 50_000_000

// stateBytes estimates the memory of a cached state.
func stateBytes(s *machine.State) int64 {
	const (
		fixed = 900 // the struct, the entry, its key and map entry
		row   = 64  // a count, label or conversation with its strings
		step  = 320
		slot  = 160
	)
	rows := len(s.Visits) + len(s.Edges) + len(s.Labels) + len(s.Queue) + len(s.Conversations)
	return int64(fixed + row*rows + step*len(s.Steps) + slot*len(s.Artifacts))
}
