package streams

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// maxGone bounds the number of deleted and erased runs that are remembered. They are needed only for
// the short time between a commit and its OnCommit.
const maxGone = 4096

// These constants limit how often followers are woken. All followers of a namespace are woken together,
// at most once in an interval. They read the commits of the interval as one page. The interval grows
// with the number of followers, so that there are at most about 2 000 wakes a second. It is measured in
// real time and not with the runtime's clock, because it only limits goroutines, and no run depends on
// it.
const (
	wakePerFollower = 500 * time.Microsecond
	wakeSoonest     = 2 * time.Millisecond
	wakeLatest      = 50 * time.Millisecond
)

// hub wakes watches after a commit, and keeps the newest entries for the followers of a namespace.
//
// Problem: many readers follow commits and must not slow them down.
//
// Invariants: a commit never waits for a reader. A wake carries no data: a woken watch reads the
// entries itself, from recentEntries or from the store. So a lost or merged wake loses no record.
//
// Order: OnCommit puts the entry in recentEntries before it wakes the followers. It checks for a
// deletion or erasure of the run after the put, so that either this check or [hub.forget] removes
// the entry.
type hub struct {
	tailBytes int64
	// feedSubs and runSubs count the subscriptions, so that a commit without readers takes no lock.
	feedSubs atomic.Int64
	runSubs  atomic.Int64

	mu    sync.Mutex
	feeds map[uint32]*namespaceFeed
	runs  map[runtime.RunKey]map[*subscription]struct{}
	// gone are the runs that were deleted or erased most recently. The OnCommit of their last commit may still follow.
	gone   *cache.LRU[runtime.RunKey, struct{}]
	closed chan struct{}
	once   sync.Once
}

// namespaceFeed holds the followers of one namespace and its newest entries.
type namespaceFeed struct {
	recent *recentEntries
	subs   map[*subscription]struct{}
	// flushed is the time at which the followers were last woken. pending reports whether the next wake
	// is scheduled.
	flushed time.Time
	pending bool
}

// subscription is the wake channel of one watch. wake holds at most one token, which means "read
// again".
type subscription struct {
	wake chan struct{}
	feed *namespaceFeed
	key  runtime.RunKey
	// at is the journal position up to which the follower of a namespace has read.
	at atomic.Uint64
}

func newHub(tailBytes int64) *hub {
	return &hub{
		tailBytes: tailBytes, feeds: make(map[uint32]*namespaceFeed),
		gone: cache.New[runtime.RunKey, struct{}](maxGone),
		runs: make(map[runtime.RunKey]map[*subscription]struct{}), closed: make(chan struct{}),
	}
}

// subscribe subscribes to a run. If the key has no id, it subscribes to all runs of the namespace.
func (h *hub) subscribe(key runtime.RunKey) *subscription {
	sub := &subscription{wake: make(chan struct{}, 1), key: key}
	h.mu.Lock()
	defer h.mu.Unlock()
	if key.ID != "" {
		if h.runs[key] == nil {
			h.runs[key] = make(map[*subscription]struct{})
		}
		h.runs[key][sub] = struct{}{}
		h.runSubs.Add(1)
		return sub
	}
	sp := h.feeds[key.Namespace]
	if sp == nil {
		sp = &namespaceFeed{recent: newRecentEntries(h.tailBytes), subs: make(map[*subscription]struct{})}
		h.feeds[key.Namespace] = sp
	}
	sp.subs[sub] = struct{}{}
	sub.feed = sp
	h.feedSubs.Add(1)
	return sub
}

// unsubscribe ends a subscription. The last subscription of a namespace also removes the newest entries from memory.
func (h *hub) unsubscribe(sub *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if sub.feed == nil {
		delete(h.runs[sub.key], sub)
		if len(h.runs[sub.key]) == 0 {
			delete(h.runs, sub.key)
		}
		h.runSubs.Add(-1)
		return
	}
	delete(sub.feed.subs, sub)
	if len(sub.feed.subs) == 0 && h.feeds[sub.key.Namespace] == sub.feed {
		delete(h.feeds, sub.key.Namespace)
	}
	h.feedSubs.Add(-1)
}

func (h *hub) close() { h.once.Do(func() { close(h.closed) }) }

// OnCommit stores the entry of a commit for followers and wakes the subscriptions of the run and its
// namespace.
func (h *hub) OnCommit(c *runtime.Commit) {
	if h.runSubs.Load() > 0 {
		h.wakeRun(c.Key)
	}
	if h.feedSubs.Load() == 0 {
		return
	}
	h.mu.Lock()
	sp := h.feeds[c.Key.Namespace]
	h.mu.Unlock()
	if sp == nil {
		return
	}
	sp.recent.put(c.Entry)
	if h.isGone(c.Key) {
		// The check comes after the put, so that either the check or a later deletion or erasure
		// removes the entry.
		sp.recent.forget(c.Key.ID)
	}
	h.wakeFeed(sp)
}

// forget removes the entries of a run that was deleted or erased.
func (h *hub) forget(key runtime.RunKey) {
	h.mu.Lock()
	sp := h.feeds[key.Namespace]
	h.gone.Put(key, struct{}{}, 1)
	h.mu.Unlock()
	if sp != nil {
		sp.recent.forget(key.ID)
	}
}

// isGone reports whether the run was deleted or erased recently.
func (h *hub) isGone(key runtime.RunKey) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.gone.Get(key)
	return ok
}

func (h *hub) wakeRun(key runtime.RunKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for sub := range h.runs[key] {
		sub.notify()
	}
}

// wakeFeed wakes the followers of a namespace. If they were woken in the current interval, it wakes them at the end of the interval.
func (h *hub) wakeFeed(sp *namespaceFeed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if sp.pending {
		return
	}
	pause := min(max(time.Duration(len(sp.subs))*wakePerFollower, wakeSoonest), wakeLatest)
	since := time.Since(sp.flushed)
	if since >= pause {
		sp.flush()
		return
	}
	sp.pending = true
	time.AfterFunc(pause-since, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		sp.pending = false
		sp.flush()
	})
}

func (sp *namespaceFeed) flush() {
	sp.flushed = time.Now()
	for sub := range sp.subs {
		sub.notify()
	}
}

// notify wakes the watch. It never blocks: if the channel already contains a token, a second token is not needed.
func (s *subscription) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
