package streams

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// maxGone bounds the deleted and erased runs that are remembered. A commit is told within moments.
const maxGone = 4096

// The followers of a namespace are woken together, and at most once in a while:
// what is committed in between reaches them as one page. The pause grows with
// their number, so that all of them make at most about 2 000 wakes a second.
// Real time, not the clock's: it paces goroutines, no run depends on it.
const (
	wakePerFollower = 500 * time.Microsecond
	wakeSoonest     = 2 * time.Millisecond
	wakeLatest      = 50 * time.Millisecond
)

// hub tells watchers that there is something to read; what, they read
// themselves. Nobody who publishes ever waits for a watcher.
type hub struct {
	tailBytes int64
	// feedSubs and runSubs let publishers pass by when nobody listens.
	feedSubs atomic.Int64
	runSubs  atomic.Int64

	mu    sync.Mutex
	feeds map[uint32]*namespaceFeed
	runs  map[runtime.RunKey]map[*subscription]struct{}
	// gone are the runs that were deleted or erased last: their last commit may be told after
	// that.
	gone   *cache.LRU[runtime.RunKey, struct{}]
	closed chan struct{}
	once   sync.Once
}

// namespaceFeed is one namespace's followers and its newest entries.
type namespaceFeed struct {
	recent *recentEntries
	subs   map[*subscription]struct{}
	// flushed is when the followers were last woken; pending: a wake is on its way.
	flushed time.Time
	pending bool
}

// subscription is one watcher. wake holds at most one token: "look again".
type subscription struct {
	wake chan struct{}
	feed *namespaceFeed
	key  runtime.RunKey
	// at is the cursor behind what a follower of a namespace has read.
	at atomic.Uint64
}

func newHub(tailBytes int64) *hub {
	return &hub{
		tailBytes: tailBytes, feeds: make(map[uint32]*namespaceFeed),
		gone: cache.New[runtime.RunKey, struct{}](maxGone),
		runs: make(map[runtime.RunKey]map[*subscription]struct{}), closed: make(chan struct{}),
	}
}

// subscribe subscribes to a namespace, or to one run if the key has an id.
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

// unsubscribe ends a subscription; the last one of a namespace takes its tail along.
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

// OnCommit keeps the entry of a commit for followers and wakes who sleeps.
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
		// Behind the put: a deletion or erasure after this look finds the entry.
		sp.recent.forget(c.Key.ID)
	}
	h.wakeFeed(sp)
}

// forget lets go of the entries of a run that was deleted or erased.
func (h *hub) forget(key runtime.RunKey) {
	h.mu.Lock()
	sp := h.feeds[key.Namespace]
	h.gone.Put(key, struct{}{}, 1)
	h.mu.Unlock()
	if sp != nil {
		sp.recent.forget(key.ID)
	}
}

// isGone: the run is one of those that were deleted or erased last.
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

// wakeFeed wakes a namespace's followers now, or with the next wake if they
// were woken just before.
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

// notify never waits: a token that is there already says the same.
func (s *subscription) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
