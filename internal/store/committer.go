package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// committer is the only writer of the storage engine. It commits batches in groups: all batches of
// a group share one sync. While the engine syncs one group, the committer checks and collects the
// next one, and sends it when the first is done.
//
// A batch passes through eight phases. The first two run on the caller's goroutine. The others run on the
// committer's goroutine, so the fields of committer need no lock:
//
//  1. encode (Commit): makes the bytes of the entry and its rows, and checks their size.
//     No lock.
//  2. queue (submit): up to queueLength batches wait. They are admitted in order of arrival.
//  3. open: checks the free disk space, and opens the group's view, which reads at the last
//     synced group (holds the lock of reads briefly), and the group's batch.
//  4. admit: checks the run's seq, then the keys that must be absent or have an expected value,
//     against the store, the group in flight and the group being collected. A batch that fails
//     is answered only when the write that it conflicts with is visible (refuse).
//  5. add: assigns the cursor and sets the rows. If a row is due before the watermark of its
//     queue, the watermark is lowered first (under the lock of the watermarks). From here on
//     the whole batch is in the group.
//  6. send: adds the cursor row and starts the engine's commit under the next number. One
//     group is in flight; phases 3 to 5 of the next group run at the same time.
//  7. publish, after the sync: updates HEAD (the file with the last acknowledged group), then
//     gives the new number to reads. This order matters: HEAD never claims an unsynced group,
//     and no read returns data that HEAD lacks.
//  8. answer: sends the next group first, then answers the callers of this one.
//
// An error in phase 3 or 4 concerns one batch, of which no row was set. After an error in
// phases 5 to 7 it is unknown what is stored, and the store takes no more writes.
type committer struct {
	store      *Store
	watermarks *watermarks
	queue      chan *request
	// acks receives the outcome of the commit group in flight.
	acks chan kv.Result
	stop chan struct{}
	done chan struct{}
	// abandoned is closed if the storage engine cannot complete a running commit.
	abandoned chan struct{}

	cursors    map[uint32]uint64
	recentSeqs recentSeqs
	knownIDs   knownIDs
	usageDays  usageDays
	// usageBegan are the namespaces whose row with the beginning of their rollups of usage is stored, or in a group.
	usageBegan map[uint32]bool
	// sentGuarded are the values that the commit group in flight sets for keys which preconditions may
	// read. Readers of the store do not see these values yet.
	sentGuarded map[string][]byte
	flight      *group
	ts          uint64
	groups      uint64
	// failure is the error of every further write if it is not nil. Only the committer sets it, and
	// only once.
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
		knownIDs: newKnownIDs(), usageBegan: map[uint32]bool{},
		recentSeqs: recentSeqs{
			now: make(map[string]uint64), before: make(map[string]uint64),
		},
	}
}

// submit passes a batch to the committer and waits for its outcome. ctx limits only the wait. A batch that is
// already in the queue is processed even if ctx ends.
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

// outcome returns the answer to a request after the committer has ended. If the committer never
// received the request, it returns [ErrClosed].
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
	defer func() { c.closeView(next) }()
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
			// The next commit group is sent before the callers of the stored group are answered, so
			// that the disk is not idle in the meantime.
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

// launch sends the collected commit group to the storage engine, if no other group is being committed
// (in flight). It returns the group to collect next.
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

// abandon answers all requests of a commit group with the failure of the store, because the group will
// never be sent.
func (c *committer) abandon(next *group, held **request) *group {
	c.closeView(next)
	c.respond(next, c.failure)
	if *held != nil {
		(*held).done <- c.failure
		*held = nil
	}
	return &group{}
}

// stopping returns the stop signal if the committer has no work. While there is work, it returns a nil
// channel, so that the work is finished before the store closes.
func (c *committer) stopping(next *group) <-chan struct{} {
	if c.flight != nil || len(next.requests) > 0 || len(c.queue) > 0 {
		return nil
	}
	return c.stop
}

// gather adds the requests that are already in the queue to the commit group. It does not wait for more
// requests.
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

// enqueue adds a batch (the writes of one caller) to the commit group that is being collected. If the
// batch cannot be added, enqueue answers its caller with the error. A batch that no longer fits in the
// group is kept for the next group.
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
		// The commit group is still empty. Its view (snapshot of the store) is closed, so that the next
		// batch is checked against the data that is synced when the batch arrives.
		c.closeView(next)
	}
}

// flushWatermarks stores the watermarks (the times at which scans of queues begin) that have risen, as a batch
// of the group that is being collected. Batches that are admitted later may lower them again. Nothing reads the
// outcome of this request, because an older watermark only makes scans slower.
func (c *committer) flushWatermarks(next *group, held **request) {
	queues := c.watermarks.countStale()
	if queues == 0 || *held != nil || c.failure != nil {
		return
	}
	w := &Writes{entry: -1, flushWatermarks: true, size: size{keys: queues, inTree: int64(queues) * 32}}
	c.enqueue(next, &request{w: w, done: make(chan error, 1)}, held)
}

// refuse answers a batch whose precondition failed. The failure may be caused by a write that readers
// do not see yet, in the group being collected or in flight. The answer then waits until this group is
// stored.
func (c *committer) refuse(next *group, r *request, err error) {
	switch {
	case len(next.requests) > 0:
		next.refusals = append(next.refusals, refusal{r, err})
	case c.flight != nil:
		c.flight.refusals = append(c.flight.refusals, refusal{r, err})
	default:
		r.done <- err
	}
}

// open checks that the disk has space for a batch. If the batch is the first of the commit group, open
// also opens the group's view. The view shows the last synced group or a later one, but not the group
// in flight. The writes of the group in flight are in recentSeqs and sentGuarded.
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

// closeView closes the view (snapshot of the store) that a commit group reads, if it is open.
func (c *committer) closeView(g *group) {
	if g.txn == nil {
		return
	}
	g.txn.Close()
	g.txn = nil
	c.store.readTimestamps.end(g.ts)
}

// send starts the commit of a group in the storage engine. The outcome arrives in the channel acks.
func (c *committer) send(g *group) {
	c.groups++
	g.number = c.groups
	c.sentGuarded = g.guarded
	c.recentSeqs.turn()
	c.watermarks.markSent()
	c.flight = g
	defer c.closeView(g)
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

// publish makes a synced commit group visible to readers. The callers of the group are answered later. If the
// group is not stored, or if the engine cannot record that it is, the store becomes read-only.
func (c *committer) publish(result kv.Result) (*group, error) {
	g := c.flight
	c.flight = nil
	err := resultError(result)
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
		c.watermarks.markSynced()
		c.store.stats.add(g)
		c.store.runCounts.Synced(c.ts, g.ops())
	}
	return g, err
}

// resultError returns the reason why a commit group is not stored, or nil if it is stored. After any
// reason the store becomes read-only, because later batches were checked against this group.
func resultError(r kv.Result) error {
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

// respond answers all requests of a group. If the group failed, its refused requests get the same error,
// because it is unknown whether the write that they conflict with is stored.
func (c *committer) respond(g *group, err error) {
	for _, r := range g.requests {
		r.done <- err
	}
	for _, lost := range g.refusals {
		if err != nil {
			lost.err = err
		}
		lost.r.done <- lost.err
	}
}

// tails returns the newest cursor of each namespace in the commit group.
func (c *committer) tails(g *group) map[uint32]uint64 {
	tails := make(map[uint32]uint64, 1)
	for _, r := range g.requests {
		if r.w.entry >= 0 {
			tails[r.w.ns] = r.w.cursor
		}
	}
	return tails
}

// markFailed makes the store permanently read-only, because it is unknown which part of a commit group
// was stored.
func (c *committer) markFailed(cause error) error {
	if c.failure == nil {
		c.failure = fmt.Errorf("%w: %w", machine.ErrIndeterminate, cause)
		c.store.fail(c.failure)
	}
	return c.failure
}

// Stats counts the commits since the store was opened.
type Stats struct {
	// Groups is the number of synced commit groups. Batches, Keys and Bytes count their contents.
	Groups, Batches, Keys, Bytes int64
}

type stats struct{ groups, batches, keys, bytes atomic.Int64 }

func (s *stats) add(g *group) {
	s.groups.Add(1)
	s.batches.Add(int64(len(g.requests)))
	s.keys.Add(int64(g.rows))
	s.bytes.Add(g.size.bytes)
}

// readTimestamps tells each read which commit group to read, and counts the running reads. The storage
// engine drops values that were superseded up to the group that [readTimestamps.oldestNeeded] returns, so
// that no running read loses a value that it needs.
type readTimestamps struct {
	mu sync.Mutex
	// ts is the number of the last synced commit group. tails maps each namespace to its newest cursor.
	// active maps group numbers to the number of running reads.
	ts     uint64
	tails  map[uint32]uint64
	active map[uint64]int
	closed bool
	idle   *sync.Cond
}

func newReadTimestamps(ts uint64, tails map[uint32]uint64) *readTimestamps {
	r := &readTimestamps{ts: ts, tails: maps.Clone(tails), active: make(map[uint64]int)}
	r.idle = sync.NewCond(&r.mu)
	return r
}

// begin returns the number of the commit group to read, and registers the read. The caller must call
// end with the same number.
func (r *readTimestamps) begin() (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, ErrClosed
	}
	r.active[r.ts]++
	return r.ts, nil
}

func (r *readTimestamps) end(ts uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.active[ts]--; r.active[ts] == 0 {
		delete(r.active, ts)
	}
	if len(r.active) == 0 {
		r.idle.Broadcast()
	}
}

func (r *readTimestamps) durable() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ts
}

// publish makes new reads use the synced commit group ts.
func (r *readTimestamps) publish(ts uint64, tails map[uint32]uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ts = ts
	maps.Copy(r.tails, tails)
}

func (r *readTimestamps) tail(ns uint32) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tails[ns]
}

// namespaces returns the numbers of all namespaces that have a cursor.
func (r *readTimestamps) namespaces() []uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]uint32, 0, len(r.tails))
	for ns := range r.tails {
		out = append(out, ns)
	}
	return out
}

// oldestNeeded returns the oldest commit group that a running or new read may use. The storage engine may
// drop values that were superseded at this group or earlier.
func (r *readTimestamps) oldestNeeded() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	oldest := r.ts
	for ts := range r.active {
		oldest = min(oldest, ts)
	}
	return oldest
}

// close makes new reads fail and waits until the running reads have ended.
func (r *readTimestamps) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for len(r.active) > 0 {
		r.idle.Wait()
	}
}

// txnOf returns a transaction that reads a snapshot. Closing the transaction also closes the snapshot.
func (s *Store) txnOf(snap kv.Snapshot) *layout.Txn {
	txn := &layout.Txn{View: kv.On(snap)}
	if keys := s.engine.Keys(); keys != nil {
		txn.Keys = keys
	}
	return txn
}

// reading calls read and then closes the transaction. It converts decoding errors to errors of damage.
// If a read of the storage engine failed, reading returns this error, even if the function read ignored
// it.
func reading(txn *layout.Txn, read func(txn *layout.Txn) error) error {
	defer txn.Close()
	err := read(txn)
	if failed := txn.Err(); failed != nil {
		return failed
	}
	return layout.Typed(err)
}

// viewAt calls read with a view of the given commit group or a later one.
func (s *Store) viewAt(group uint64, read func(txn *layout.Txn) error) error {
	return reading(s.txnOf(s.engine.View(group)), read)
}

// inView is the context key of a transaction. Code that replays a run reads in this transaction.
type inView struct{ store *Store }

// viewIn calls read with the transaction that ctx contains, or with a new view if there is none. This
// prevents a deadlock in storage engines whose views each need a connection: a second view would wait
// for a connection while the caller already holds one.
func (s *Store) viewIn(ctx context.Context, read func(txn *layout.Txn) error) error {
	if txn, ok := ctx.Value(inView{s}).(*layout.Txn); ok {
		return layout.Typed(read(txn))
	}
	return s.view(read)
}

// view calls read with a view of the last synced commit group.
func (s *Store) view(read func(txn *layout.Txn) error) error {
	ts, err := s.readTimestamps.begin()
	if err != nil {
		return err
	}
	defer s.readTimestamps.end(ts)
	return s.viewAt(ts, read)
}

// BareCommitter gives benchmarks direct access to the committer of a new store. The store contains only the
// rows that the benchmark writes. [Store] itself has no exported method that writes rows without checks.
type BareCommitter struct{ store *Store }

// NewBareCommitter creates a store in a directory that must be empty or absent.
func NewBareCommitter(opts Options) (*BareCommitter, error) {
	files, err := os.ReadDir(opts.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("bare committer: %w", err)
	}
	if len(files) > 0 {
		return nil, fmt.Errorf("bare committer: %s is not empty", opts.Dir)
	}
	s, err := Open(opts)
	if err != nil {
		return nil, err
	}
	return &BareCommitter{store: s}, nil
}

// Commit stores ops without any check and waits until they are synced. The committer may store them in
// one commit group with the ops of other callers.
func (y *BareCommitter) Commit(ctx context.Context, ops []layout.Op) error {
	return y.store.write(ctx, &Writes{ops: ops, entry: -1})
}

// Close closes the store.
func (y *BareCommitter) Close() error { return y.store.Close() }
