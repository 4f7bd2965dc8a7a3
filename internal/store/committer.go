package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/kv"
)

// committer is the only writer of the engine. While one group is being synced
// it checks and collects the next, which is sent as soon as the former is done.
//
// The way of a batch, phase by phase. Only the first and the last are the caller's
// goroutine; all between is the committer's own, so that none of its fields has a lock:
//
//  1. encode (Commit): bytes of the entry and its rows, size against the bounds. No lock.
//  2. queue (submit): up to queueLength wait. Order of arrival is order of admission.
//  3. open: room on the disk; the group's view, which reads at the last synced group (lock
//     of reads, for the moment), and its batch.
//  4. admit: seq of the run, then the keys that must be absent or as expected, against
//     the store, the group in flight and the group being made. Whoever loses is answered
//     only when what it lost against is visible (refuse).
//  5. add: cursor, then the rows; watermarks go down before a row below them is set (lock
//     of marks). From here on the batch is in the group, whole.
//  6. send: the row of cursors, then the engine's commit under the next number. One group
//     is in flight; phases 3 to 5 of the next go on meanwhile.
//  7. settle, after the sync: HEAD, then reads are given the new number. This order:
//     HEAD never claims what is not synced, nobody reads what HEAD could lack.
//  8. answer: first the next group is sent, then the callers hear of this one.
//
// An error of phases 3 and 4 concerns one batch, of which nothing was set. One of phases 5
// to 7 means that nobody knows what is stored: broken, for good.
type committer struct {
	store      *Store
	watermarks *watermarks
	queue      chan *request
	// acks receives the outcome of the group in flight.
	acks chan kv.Result
	stop chan struct{}
	done chan struct{}
	// abandoned is closed when a commit is under way that never ends.
	abandoned chan struct{}

	cursors    map[uint32]uint64
	recentSeqs recentSeqs
	knownIDs   knownIDs
	// sentGuarded are the guarded values of the group that was sent last.
	sentGuarded map[string][]byte
	flight      *group
	ts          uint64
	groups      uint64
	// failure ends all writing; set once, by the committer alone.
	failure error
}

// queueLength bounds the batches that wait for the committer.
const queueLength = 4096

func newCommitter(s *Store, ts uint64, cursors map[uint32]uint64) *committer {
	return &committer{
		store: s, watermarks: s.watermarks, ts: ts, cursors: cursors,
		queue: make(chan *request, queueLength),
		acks:  make(chan kv.Result, 1),
		stop:  make(chan struct{}),
		done:  make(chan struct{}), abandoned: make(chan struct{}),
		knownIDs: newKnownIDs(),
		recentSeqs: recentSeqs{
			now: make(map[string]uint64), before: make(map[string]uint64),
		},
	}
}

// submit hands a batch over and waits for its outcome. The context limits only
// the waiting: what was handed over goes on.
func (c *committer) submit(ctx context.Context, w *Writes) error {
	r := &request{w: w, done: make(chan error, 1)}
	select {
	case <-c.stop:
		return ErrClosed
	case <-c.store.failed:
		return c.store.failure()
	default:
	}
	select {
	case c.queue <- r:
	case <-c.stop:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("commit not begun: %w", ctx.Err())
	}
	select {
	case err := <-r.done:
		return err
	case <-c.done:
		return r.outcome()
	case <-c.abandoned:
		return c.store.failure()
	case <-ctx.Done():
		return fmt.Errorf("commit goes on without its caller: %w", ctx.Err())
	}
}

// outcome is for a request whose committer has ended: answered, or never seen.
func (r *request) outcome() error {
	select {
	case err := <-r.done:
		return err
	default:
		return ErrClosed
	}
}

// run is the committer's goroutine.
func (c *committer) run() {
	defer close(c.done)
	marks := time.NewTicker(c.store.opts.MarkInterval)
	defer marks.Stop()
	next := &group{}
	defer func() { c.shut(next) }()
	var held *request
	for {
		if c.failure != nil {
			next = c.abandon(next, &held)
		}
		next = c.launch(next, &held)
		queue := c.queue
		if held != nil {
			queue = nil
		}
		select {
		case r := <-queue:
			c.enqueue(next, r, &held)
		case result := <-c.acks:
			g, err := c.publish(result)
			// The disk has work again before the callers of the last group have theirs.
			next = c.launch(next, &held)
			c.respond(g, err)
			c.answered(g)
		case <-marks.C:
			c.flushWatermarks(next, &held)
		case <-c.stopping(next):
			return
		}
	}
}

// launch sends the group that was collected, unless one is in flight, and returns
// the one to collect next.
func (c *committer) launch(next *group, held **request) *group {
	if c.failure != nil || c.flight != nil || len(next.requests) == 0 {
		return next
	}
	c.gather(next, held)
	c.send(next)
	next = &group{}
	if r := *held; r != nil {
		*held = nil
		c.enqueue(next, r, held)
	}
	return next
}

// abandon answers everybody in a group that will never be sent.
func (c *committer) abandon(next *group, held **request) *group {
	c.shut(next)
	c.respond(next, c.failure)
	if *held != nil {
		(*held).done <- c.failure
		*held = nil
	}
	return &group{}
}

// stopping is the stop signal once nothing is collected or in flight; before
// that it never fires, so that a close drains.
func (c *committer) stopping(next *group) <-chan struct{} {
	if c.flight != nil || len(next.requests) > 0 || len(c.queue) > 0 {
		return nil
	}
	return c.stop
}

// gather takes what waits already, without waiting for more.
func (c *committer) gather(next *group, held **request) {
	for *held == nil {
		select {
		case r := <-c.queue:
			c.enqueue(next, r, held)
		default:
			return
		}
	}
}

// enqueue admits a batch into the group, or answers why not. A batch that does not
// fit any more is held for the next group.
func (c *committer) enqueue(next *group, r *request, held **request) {
	if err := c.open(next, r.w); err != nil {
		r.done <- err
		return
	}
	if !c.store.fits(next.size.plus(r.w.size)) && len(next.requests) > 0 {
		*held = r
		return
	}
	if err := c.checkPreconditions(next, r); err != nil {
		c.refuse(next, r, err)
	}
	if len(next.requests) == 0 {
		// The next batch is judged by what is synced when it comes.
		c.shut(next)
	}
}

// flushWatermarks stores the watermarks that scans have moved, as a batch of the group that is
// being made: what is admitted after it lowers them again. Best effort, an older mark
// is as right, only slower.
func (c *committer) flushWatermarks(next *group, held **request) {
	queues := c.watermarks.behind()
	if queues == 0 || *held != nil || c.failure != nil {
		return
	}
	w := &Writes{entry: -1, flushWatermarks: true, size: size{keys: queues, inTree: int64(queues) * 32}}
	c.enqueue(next, &request{w: w, done: make(chan error, 1)}, held)
}

// refuse answers a batch whose precondition failed: at once if what it lost
// against is visible, else together with the group that holds it.
func (c *committer) refuse(next *group, r *request, err error) {
	switch {
	case len(next.requests) > 0:
		next.refused = append(next.refused, refusal{r, err})
	case c.flight != nil:
		c.flight.refused = append(c.flight.refused, refusal{r, err})
	default:
		r.done <- err
	}
}

// open checks that there is room for a batch, and begins the
// group when its first batch comes. It reads at the last synced group, or at a later one,
// which is kept from being collected until the group is sent; what is in flight is
// seen through recent and sentGuarded.
func (c *committer) open(g *group, w *Writes) error {
	if c.failure != nil {
		return c.failure
	}
	if err := c.store.checkSpace(w); err != nil {
		return err
	}
	if g.txn != nil {
		return nil
	}
	var err error
	if g.ts, err = c.store.readTimestamps.begin(); err != nil {
		return err
	}
	g.txn, g.batch = c.store.txnOf(c.store.engine.View(g.ts)), c.store.engine.Batch()
	g.guarded, g.cursorRows = make(map[string][]byte), make(map[uint32][]byte, 1)
	return nil
}

// shut ends a group's reading.
func (c *committer) shut(g *group) {
	if g.txn == nil {
		return
	}
	g.txn.Close()
	g.txn = nil
	c.store.readTimestamps.end(g.ts)
}

// send commits the group; its outcome arrives in acks.
func (c *committer) send(g *group) {
	c.groups++
	g.number = c.groups
	c.sentGuarded = g.guarded
	c.recentSeqs.turn()
	c.watermarks.sent()
	c.flight = g
	defer c.shut(g)
	if before := c.store.opts.Hooks.BeforeCommit; before != nil {
		if err := before(g.info()); err != nil {
			c.acks <- kv.Result{Err: err}
			return
		}
	}
	c.ts++
	c.addCursorRows(g)
	g.batch.Commit(c.ts, func(r kv.Result) { c.acks <- r })
}

// publish publishes the group that was synced; its callers have no answer yet.
func (c *committer) publish(result kv.Result) (*group, error) {
	g := c.flight
	c.flight = nil
	err := unstored(result)
	if after := c.store.opts.Hooks.AfterCommit; err == nil && after != nil {
		err = after(g.info())
	}
	if err == nil {
		err = c.store.engine.Settled(engine.Group{Number: c.ts, Apart: g.holdsApart(c.store.bounds.Apart), Last: g.last()})
	}
	if err != nil {
		err = c.markFailed(err)
	} else {
		c.store.readTimestamps.publish(c.ts, c.tails(g))
		c.watermarks.synced()
		c.store.stats.add(g)
		c.store.runCounts.Synced(c.ts, g.ops())
	}
	return g, err
}

// unstored is why a group is not stored, nil if it is. Of one that is certainly not what came
// after it was judged by it, so that it ends the writing as well.
func unstored(r kv.Result) error {
	if r.Outcome != kv.Stored && r.Err == nil {
		return errOutcomeMissing
	}
	return r.Err
}

var errOutcomeMissing = errors.New("the engine did not say that the group is stored")

func (c *committer) answered(g *group) {
	if answered := c.store.opts.Hooks.Answered; answered != nil {
		answered(g.info())
	}
}

// respond tells everybody of a group what became of it.
func (c *committer) respond(g *group, err error) {
	for _, r := range g.requests {
		r.done <- err
	}
	for _, lost := range g.refused {
		if err != nil {
			lost.err = err
		}
		lost.r.done <- lost.err
	}
}

// tails are the newest cursors of the namespaces in the group.
func (c *committer) tails(g *group) map[uint32]uint64 {
	tails := make(map[uint32]uint64, 1)
	for _, r := range g.requests {
		if r.w.entry >= 0 {
			tails[r.w.ns] = r.w.cursor
		}
	}
	return tails
}

// markFailed makes the store read-only for good: nobody knows what of the group was
// stored.
func (c *committer) markFailed(cause error) error {
	if c.failure == nil {
		c.failure = fmt.Errorf("%w: %w", machine.ErrIndeterminate, cause)
		c.store.fail(c.failure)
	}
	return c.failure
}

// Stats counts what was committed since the store was opened.
type Stats struct {
	// Groups are synced transactions; Batches, Keys and Bytes what they held.
	Groups, Batches, Keys, Bytes int64
}

type stats struct{ groups, batches, keys, bytes atomic.Int64 }

func (s *stats) add(g *group) {
	s.groups.Add(1)
	s.batches.Add(int64(len(g.requests)))
	s.keys.Add(int64(g.rows))
	s.bytes.Add(g.size.bytes)
}
