package runtime

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
)

// RunKey identifies a run in this process.
type RunKey = machine.RunKey

// runShards is the number of shards of a runTable. It is a power of two, so that the low bits of a hash select a
// shard.
const runShards = 64

// runTable contains the queue of inputs and the cached state of each run. It assumes that this process owns every
// run of the store, so that there is no other queue for a run. Only [runTable.acquire] would have to change for
// runs of other owners. An entry exists while an input holds or waits for the execution slot of the run, or while
// the state of the run is cached. A cache.LRU cannot be used, because it could evict entries that are in use.
//
// Locks: each shard has a mutex, which is held for a few instructions and never during a wait. The execution slot
// of a run is not a mutex. One input at a time has the slot, in the order of the calls of acquire, and keeps it
// for the duration of its commit.
type runTable struct {
	seed   maphash.Seed
	shards [runShards]runShard
}

type runShard struct {
	mu      sync.Mutex
	entries map[RunKey]*runEntry
	// lru is the sentinel of a ring of the unused entries, the newest first. bytes is the size of their states,
	// and limit the largest size that the shard may cache.
	lru    runEntry
	bytes  int64
	limit  int64
	queue  int
	tokens tokenTable
}

// runEntry contains the queue and the cached state of one run. The mutex of the shard guards all fields.
type runEntry struct {
	key RunKey
	// busy reports whether an input holds the execution slot.
	busy bool
	// commitInFlight reports whether a commit of the run is in progress. If so, the store may already return a
	// newer state than the cached one.
	commitInFlight          bool
	firstWaiter, lastWaiter *waiter
	waiting                 int
	state                   *machine.State
	program                 *packcache.Program
	bytes                   int64
	newer, older            *runEntry
}

// waiter is one input that waits for the execution slot of its run.
type waiter struct {
	// granted receives one value when the input gets the execution slot.
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

// acquire requests the execution slot of a run. If the returned waiter is nil, the caller has the slot. Otherwise
// the caller has it after the waiter's channel granted has received a value. The caller must free every slot with
// release.
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

// acquireWait acquires the execution slot of a run and waits for it without a time limit.
func (s *runTable) acquireWait(key RunKey) (*runEntry, error) {
	entry, w, err := s.acquire(key)
	if w != nil {
		<-w.granted
		waiters.Put(w)
	}
	return entry, err
}

// release frees the execution slot of a run and gives it to the next waiting input. state replaces the cached
// state. If it is nil, the cached state is removed. The state of an ended run is removed, too, if no input waits.
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

// beginCommit marks the start of a commit of the run. The caller has the run's execution slot. Until the outcome of
// the commit is known, readers must ask the store for the newest state.
func (s *runTable) beginCommit(entry *runEntry) {
	shard := s.shard(entry.key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	entry.commitInFlight = true
}

// committed publishes the state that was stored as the newest one. It must be called before the execution slot is
// released.
func (s *runTable) committed(entry *runEntry, state *machine.State) {
	shard := s.shard(entry.key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	entry.state, entry.commitInFlight = state, false
}

// cachedState returns the cached state of a run, or nil. The state is never older than an answer that a caller has
// received or a record that the store has returned.
func (s *runTable) cachedState(key RunKey) *machine.State {
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
	if entry.lastWaiter == nil {
		entry.firstWaiter = w
	} else {
		entry.lastWaiter.next = w
	}
	entry.lastWaiter = w
	entry.waiting++
}

func (entry *runEntry) pop() *waiter {
	w := entry.firstWaiter
	if w == nil {
		return nil
	}
	entry.firstWaiter = w.next
	if entry.firstWaiter == nil {
		entry.lastWaiter = nil
	}
	entry.waiting--
	return w
}

// link adds an unused entry to the ring as its newest entry.
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

// evict removes the oldest unused entries until the shard is within its limit. It always keeps one entry, so that
// a run that is larger than the limit is not loaded for each input.
func (sh *runShard) evict() {
	for sh.bytes > sh.limit && sh.lru.newer != sh.lru.older {
		oldest := sh.lru.newer // the ring is closed, so the oldest entry follows the sentinel in this direction
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

// queueRetry is the pause that the error QUEUE_FULL asks the caller to make, in nanoseconds.
const queueRetry = 50_000_000

// stateBytes estimates the memory that a cached state needs, in bytes.
func stateBytes(s *machine.State) int64 {
	const (
		fixed = 900 // the struct, the entry, its key and its map entry
		row   = 64  // a count, label or conversation with its strings
		step  = 320
		slot  = 160
	)
	rows := len(s.Visits) + len(s.Edges) + len(s.Labels) + len(s.Queue) + len(s.Conversations)
	return int64(fixed + row*rows + step*len(s.Steps) + slot*len(s.Artifacts))
}

// inflightLimiter bounds how many inputs the engine executes at once. During a drain it signals that the last
// input has finished. Safe for concurrent use.
type inflightLimiter struct {
	inFlight atomic.Int64
	// limit is the number of inputs in flight above which new work is rejected. lastRetryAt is the latest time at
	// which a rejected caller was asked to retry, as a value of Clock.Elapsed.
	limit       int64
	lastRetryAt atomic.Int64
	clock       Clock
	draining    atomic.Bool
	drainOnce   sync.Once
	// empty is closed when the engine drains and no input is in flight any more.
	empty chan struct{}
	// failed is closed when the outcome of a commit is unknown.
	failed   chan struct{}
	failOnce sync.Once
}

// newInflightLimiter returns a limiter that rejects new work above limit inputs in flight.
func newInflightLimiter(limit int, clock Clock) *inflightLimiter {
	return &inflightLimiter{limit: int64(limit), clock: clock, empty: make(chan struct{}), failed: make(chan struct{})}
}

// Acquire admits one input. It returns an error if the engine drains or has failed, or if more than share times
// the limit are in flight. A share of 0 means that there is no bound. The caller must call Release once for each
// admitted input.
func (l *inflightLimiter) Acquire(share int64) error {
	got := l.inFlight.Add(1)
	err := l.Check()
	if limit := share * l.limit; err == nil && share > 0 && got > limit {
		err = &machine.Error{
			Code: machine.CodeResourceExhausted, Reason: "OVERLOADED", Limit: limit, Got: got, RetryAfter: l.retryDelay(),
			Message: "too many inputs are under way; nothing was done, repeat the request later",
		}
	}
	if err != nil {
		l.Release()
	}
	return err
}

// These constants bound the delay after which a rejected caller may retry. The shortest delay is a few times the
// usual duration of an input.
const (
	shortestPause = 250 * time.Millisecond
	longestPause  = 10 * time.Second
)

// retryDelay returns the delay after which the next rejected caller may retry, in nanoseconds. It spreads the
// retries, at most limit of them in a second, so that they do not all come at once and are rejected again. If this
// would make the delay longer than longestPause, the delay is longestPause.
func (l *inflightLimiter) retryDelay() int64 {
	now := int64(l.clock.Elapsed())
	for {
		last := l.lastRetryAt.Load()
		next := min(max(last+int64(time.Second)/l.limit, now+int64(shortestPause)), now+int64(longestPause))
		if l.lastRetryAt.CompareAndSwap(last, next) {
			return next - now
		}
	}
}

// Check returns nil if inputs are accepted. Otherwise the error says why they are not.
func (l *inflightLimiter) Check() error {
	select {
	case <-l.failed:
		return commitUnknown()
	default:
	}
	if l.draining.Load() {
		return &machine.Error{
			Code: machine.CodeUnavailable, Reason: "DRAINING",
			Message: "the server is shutting down; repeat the request with the same id at its successor", RetryAfter: drainRetry,
		}
	}
	return nil
}

// drainRetry is the retry delay for callers of a draining server, in nanoseconds.
const drainRetry = 1_000_000_000

// Release ends one input that Acquire admitted. During a drain, the last Release closes the channel empty.
func (l *inflightLimiter) Release() {
	if l.inFlight.Add(-1) == 0 && l.draining.Load() {
		l.drainOnce.Do(func() { close(l.empty) })
	}
}

// Drain stops the admission of inputs and waits until the last input has finished, or until ctx ends.
func (l *inflightLimiter) Drain(ctx context.Context) error {
	l.inFlight.Add(1)
	l.draining.Store(true)
	l.Release()
	select {
	case <-l.empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Fail ends the admission of inputs permanently, because it is unknown what the store contains.
func (l *inflightLimiter) Fail() { l.failOnce.Do(func() { close(l.failed) }) }

// commitUnknown returns the error for an input of which it is unknown whether it was committed.
func commitUnknown() error {
	return &machine.Error{
		Code: machine.CodeUnavailable, Reason: "COMMIT_UNKNOWN",
		Message: "it is not known whether the commit happened; repeat the request with the same id once the server is back",
	}
}

// Failed returns a channel that is closed by Fail.
func (l *inflightLimiter) Failed() <-chan struct{} { return l.failed }

// Empty returns a channel that is closed when the engine is draining and no input is in flight.
func (l *inflightLimiter) Empty() <-chan struct{} { return l.empty }
