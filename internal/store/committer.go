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

// committer is the only writer of the engine (group commit). While the engine syncs one group,
// the committer checks and collects the next one, and sends it when the first is done.
//
// A batch passes through eight phases. The first and the last run on the caller's goroutine.
// The others run on the committer's goroutine, so the fields of committer need no lock:
//
//  1. encode (Commit): makes the bytes of the entry and its rows, and checks their size.
//     No lock.
//  2. queue (submit): up to queueLength batches wait. They are admitted in order of arrival.
//  3. open: checks the free disk space, and opens the group's view, which reads at the last
//     synced group (holds the lock of reads briefly), and the group's batch.
//  4. admit: checks the run's seq, then the keys that must be absent or have an expected value,
//     against the store, the group in flight and the group being collected. A batch that fails
//     is answered only when the write that it conflicts with is visible (refuse).
//  5. add: assigns the cursor and sets the rows. A watermark is lowered before a row below it
//     is set (lock of marks). From here on the whole batch is in the group.
//  6. send: adds the row of cursors and starts the engine's commit under the next number. One
//     group is in flight; phases 3 to 5 of the next group run at the same time.
//  7. settle, after the sync: updates HEAD, then gives the new number to reads. This order
//     matters: HEAD never claims an unsynced group, and no read returns data that HEAD lacks.
//  8. answer: sends the next group first, then answers the callers of this one.
//
// An error in phase 3 or 4 concerns one batch, of which no row was set. After an error in
// phases 5 to 7 it is unknown what is stored, and the store takes no more writes.
type committer struct {
	store      *Store
	watermarks *watermarks
	queue      chan *request
	// acks receives the outcome of the group in flight.
	acks chan kv.Result
	stop chan struct{}
	done chan struct{}
	// abandoned is closed if the engine cannot complete a running commit.
	abandoned chan struct{}

	cursors    map[uint32]uint64
	recentSeqs recentSeqs
	knownIDs   knownIDs
	// sentGuarded are the values that the last group set for keys that preconditions may read. Readers
	// of the store may not see these values yet.
	sentGuarded map[string][]byte
	flight      *group
	ts          uint64
	groups      uint64
	// failure makes every further write fail if it is not nil. Only the committer sets it, and only
	// once.
	failure error
}

// queueLength is the maximum number of batches that wait for the committer.
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

// submit passes a batch to the committer and waits for its outcome. The context limits only the wait. A
// batch that the committer has received is still committed.
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

// outcome returns the outcome of a request after the committer has ended. This is the answer to the
// request, or an error if the committer never received it.
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
			// The next group is sent before the callers of the last group are answered, so that the
			// disk is not idle in the meantime.
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

// launch sends the collected group, unless another group is in flight. It returns the group that is
// collected next.
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

// abandon answers all requests of a group that will never be sent.
func (c *committer) abandon(next *group, held **request) *group {
	c.shut(next)
	c.respond(next, c.failure)
	if *held != nil {
		(*held).done <- c.failure
		*held = nil
	}
	return &group{}
}

// stopping returns the stop signal if no group is collected or in flight. Otherwise it returns a
// channel that never fires, so that the running work is finished before the store closes.
func (c *committer) stopping(next *group) <-chan struct{} {
	if c.flight != nil || len(next.requests) > 0 || len(c.queue) > 0 {
		return nil
	}
	return c.stop
}

// gather takes the requests that are already in the queue. It does not wait for more requests.
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

// enqueue admits a batch to the group. If the batch cannot be admitted, it answers the batch with the
// error. A batch that no longer fits in the group is kept for the next group.
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
		// The next batch must be checked against the data that is synced when it arrives.
		c.shut(next)
	}
}

// flushWatermarks stores the watermarks that scans have raised, as a batch of the group that is being
// collected. Batches that are admitted later may lower them again. An error can be ignored, because an
// older watermark is also correct, only slower.
func (c *committer) flushWatermarks(next *group, held **request) {
	queues := c.watermarks.behind()
	if queues == 0 || *held != nil || c.failure != nil {
		return
	}
	w := &Writes{entry: -1, flushWatermarks: true, size: size{keys: queues, inTree: int64(queues) * 32}}
	c.enqueue(next, &request{w: w, done: make(chan error, 1)}, held)
}

// refuse answers a batch whose precondition failed. If the write that the batch conflicts with is
// visible, refuse answers immediately. Otherwise it answers together with the group that contains that
// write.
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

// open checks that the disk has space for a batch, and starts the group with its first batch. The group
// reads the last synced group or a later one, and the engine keeps that version until the group is
// sent. The view does not include the group in flight. recentSeqs and sentGuarded contain the writes of
// that group.
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

// shut closes a group's view.
func (c *committer) shut(g *group) {
	if g.txn == nil {
		return
	}
	g.txn.Close()
	g.txn = nil
	c.store.readTimestamps.end(g.ts)
}

// send starts the group's commit. The outcome arrives in acks.
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

// publish makes a synced group visible to reads. The callers of the group are answered later.
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

// unstored returns the reason why a group is not stored. It returns nil if the group is stored. Even if
// it is certain that a group is not stored, the store becomes read-only, because later batches were
// checked against this group.
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

// respond answers all requests of a group.
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

// tails returns the newest cursor of each namespace in the group.
func (c *committer) tails(g *group) map[uint32]uint64 {
	tails := make(map[uint32]uint64, 1)
	for _, r := range g.requests {
		if r.w.entry >= 0 {
			tails[r.w.ns] = r.w.cursor
		}
	}
	return tails
}

// markFailed makes the store permanently read-only, because it is unknown which part of the group was
// stored.
func (c *committer) markFailed(cause error) error {
	if c.failure == nil {
		c.failure = fmt.Errorf("%w: %w", machine.ErrIndeterminate, cause)
		c.store.fail(c.failure)
	}
	return c.failure
}

// Stats counts the commits since the store was opened.
type Stats struct {
	// Groups is the number of synced transactions. Batches, Keys and Bytes count their contents.
	Groups, Batches, Keys, Bytes int64
}

type stats struct{ groups, batches, keys, bytes atomic.Int64 }

func (s *stats) add(g *group) {
	s.groups.Add(1)
	s.batches.Add(int64(len(g.requests)))
	s.keys.Add(int64(g.rows))
	s.bytes.Add(g.size.bytes)
}
