package streams

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// maxGone bounds the number of deleted and erased runs that are remembered. A run must be remembered only for the short
// time between its last commit and the OnCommit of that commit.
const maxGone = 4096

// These constants limit how often followers (watches of all runs of a namespace) are woken. They are woken together, at
// most once in an interval, and read the commits of the interval as one page. The interval grows with their number, so
// that up to 100 followers cause at most about 2 000 wakes a second. With more followers it stays at wakeLatest. It is
// measured in real time and not with the runtime's clock, because no run depends on it.
const (
	wakePerFollower = 500 * time.Microsecond
	wakeSoonest     = 2 * time.Millisecond
	wakeLatest      = 50 * time.Millisecond
)

// hub wakes watches (streams of records to readers) after a commit, and keeps the newest entries for the watches of all
// runs of a namespace.
//
// Problem: many readers follow commits and must not slow them down.
//
// Invariants: a commit never waits for a reader. A wake carries no data: a woken watch reads the entries itself, from
// recentEntries or from the store. So a lost or merged wake loses no record.
//
// Order: OnCommit puts the entry in recentEntries before it wakes the followers. After the put it checks whether the
// run was deleted or erased, so that either this check or [hub.forget] removes the entry.
type hub struct {
	tailBytes int64
	// feedSubs and runSubs are the numbers of subscriptions, so that a commit without readers need not take the lock.
	feedSubs atomic.Int64
	runSubs  atomic.Int64

	mu    sync.Mutex
	feeds map[uint32]*namespaceFeed
	runs  map[runtime.RunKey]map[*subscription]struct{}
	// removedRuns are the runs that were deleted or erased most recently, because the OnCommit of their last commit may still
	// follow.
	removedRuns *cache.LRU[runtime.RunKey, struct{}]
	closed      chan struct{}
	stopOnce    sync.Once
}

// namespaceFeed contains the watches of all runs of one namespace, and the newest entries of the namespace.
type namespaceFeed struct {
	recent *recentEntries
	subs   map[*subscription]struct{}
	// flushed is the time at which the watches were last woken. pending reports whether the next wake is scheduled.
	flushed time.Time
	pending bool
}

// subscription is the channel that wakes one watch (a stream of records to a reader). The channel contains at most one
// token, which means that there is something new to read.
type subscription struct {
	wake chan struct{}
	feed *namespaceFeed
	key  runtime.RunKey
	// at is the position in the journal up to which a watch of all runs has read.
	at atomic.Uint64
}

func newHub(tailBytes int64) *hub {
	return &hub{
		tailBytes: tailBytes, feeds: make(map[uint32]*namespaceFeed),
		removedRuns: cache.New[runtime.RunKey, struct{}](maxGone),
		runs:        make(map[runtime.RunKey]map[*subscription]struct{}), closed: make(chan struct{}),
	}
}

// subscribe subscribes to the commits of a run. If the key has no id, it subscribes to all runs of the namespace.
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

// unsubscribe ends a subscription. With the last subscription to all runs of a namespace, the newest entries of the
// namespace are removed from memory.
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

func (h *hub) close() { h.stopOnce.Do(func() { close(h.closed) }) }

// OnCommit keeps the entry of a commit for readers, and wakes the subscriptions to the run and to its namespace.
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
		// The deletion of the run may run at the same time. This check comes after the put, so that either the check or
		// the deletion removes the entry.
		sp.recent.forget(c.Key.ID)
	}
	h.wakeFeed(sp)
}

// forget removes the entries of a run from memory, because the run was deleted or erased.
func (h *hub) forget(key runtime.RunKey) {
	h.mu.Lock()
	sp := h.feeds[key.Namespace]
	h.removedRuns.Put(key, struct{}{}, 1)
	h.mu.Unlock()
	if sp != nil {
		sp.recent.forget(key.ID)
	}
}

// isGone reports whether the run was deleted or erased recently.
func (h *hub) isGone(key runtime.RunKey) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.removedRuns.Get(key)
	return ok
}

func (h *hub) wakeRun(key runtime.RunKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for sub := range h.runs[key] {
		sub.notify()
	}
}

// wakeFeed wakes the watches of all runs of a namespace. If they were already woken in the current interval, they are
// woken at its end.
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

// notify wakes the watch. It never blocks: a token that is already in the channel is enough.
func (s *subscription) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Followers contains counts of the streams of all runs, for metrics.
type Followers struct {
	// Streams is the number of open streams.
	Streams int
	// Lag is the number of commits that the slowest stream has not read yet.
	Lag uint64
}

// Followers returns the number of streams over all namespaces, and the largest lag.
func (r *Service) Followers(ctx context.Context) (Followers, error) {
	var out Followers
	for _, ns := range r.cfg.Engine.NamespaceNumbers() {
		tail, err := r.cfg.Store.Tail(ctx, ns)
		if err != nil {
			return Followers{}, fmt.Errorf("streams: tail of the journal: %w", err)
		}
		streams, slowest := r.hub.followers(ns)
		out.Streams += streams
		if streams > 0 && slowest < tail {
			out.Lag = max(out.Lag, tail-slowest)
		}
	}
	return out, nil
}

// followers returns the number of streams of all runs of a namespace, and the position of the slowest of them.
func (h *hub) followers(ns uint32) (streams int, slowest uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sp := h.feeds[ns]
	if sp == nil {
		return 0, 0
	}
	first := true
	for sub := range sp.subs {
		if at := sub.at.Load(); first || at < slowest {
			slowest, first = at, false
		}
	}
	return len(sp.subs), slowest
}

// WatchSubscription opens a watch of the records after a webhook's position, with the rights of the webhook's owner.
// The records must be converted to messages with the rights of the returned call.
func (r *Service) WatchSubscription(ctx context.Context, sub *machine.Subscription) (w *Watch, call runtime.Call, err error) {
	call = runtime.Call{Principal: runtime.Principal{Subject: sub.Owner, Scopes: runtime.ScopeRunsRead}}
	call.Namespace = r.cfg.Engine.NamespaceName(sub.Namespace)
	if call.Namespace == "" {
		return nil, call, fmt.Errorf("streams: the namespace of webhook %q is not configured", sub.ID)
	}
	cursor := runtime.Cursor{Epoch: r.cfg.Store.Epoch(), Position: sub.After, Index: sub.Index}
	req := Request{
		Call: call, AfterCursor: cursor.String(), Follow: true,
		Filter: Filter{
			Pack: sub.Filter.Pack, Status: sub.Filter.Status, Labels: sub.Filter.Labels, Parent: sub.Filter.Parent, Kinds: sub.Kinds,
		},
	}
	if sub.Filter.State != "" {
		req.Filter.States = []string{sub.Filter.State}
	}
	w, err = r.Watch(ctx, req)
	return w, call, err
}
