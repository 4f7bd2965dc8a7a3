package store

import (
	"context"
	"maps"
	"sync"

	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// readTimestamps assigns a group to each read and counts the running reads. The engine drops values
// that were superseded up to the group that [readTimestamps.oldest] returns. So a running read never
// loses a value that it needs.
type readTimestamps struct {
	mu sync.Mutex
	// ts is the number of the last synced group. tails maps each namespace to its newest cursor.
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

// begin returns the group number for a read and registers the read. The caller must call end with
// the same number.
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

// publish makes a synced group visible to new reads.
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

// oldest returns the oldest group that a running or new read may use. Values that were superseded at
// this group or earlier are no longer needed.
func (r *readTimestamps) oldest() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	oldest := r.ts
	for ts := range r.active {
		oldest = min(oldest, ts)
	}
	return oldest
}

// shut makes new reads fail and waits until the running reads have ended.
func (r *readTimestamps) shut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for len(r.active) > 0 {
		r.idle.Wait()
	}
}

// txnOf returns a transaction that reads a snapshot. When the transaction is closed, the snapshot is
// closed too.
func (s *Store) txnOf(snap kv.Snapshot) *layout.Txn {
	txn := &layout.Txn{View: kv.On(snap)}
	if keys := s.engine.Keys(); keys != nil {
		txn.Keys = keys
	}
	return txn
}

// reading calls read and then closes the view. It converts decoding errors to errors of damage. If a
// read of the view failed, reading returns this error, even if the function read ignored it.
func reading(txn *layout.Txn, read func(txn *layout.Txn) error) error {
	defer txn.Close()
	err := read(txn)
	if failed := txn.Err(); failed != nil {
		return failed
	}
	return layout.Typed(err)
}

// viewAt reads the given group or a later one.
func (s *Store) viewAt(group uint64, read func(txn *layout.Txn) error) error {
	return reading(s.txnOf(s.engine.View(group)), read)
}

// inView is the context key for the view that a replay must use.
type inView struct{ of *Store }

// viewIn reads in the view that ctx contains. If ctx contains none, it does the same as view. If each
// view needs a connection, this prevents a deadlock: a second view would wait for a connection while
// the caller already has one.
func (s *Store) viewIn(ctx context.Context, read func(txn *layout.Txn) error) error {
	if txn, ok := ctx.Value(inView{s}).(*layout.Txn); ok {
		return layout.Typed(read(txn))
	}
	return s.view(read)
}

// view reads at the last synced group.
func (s *Store) view(read func(txn *layout.Txn) error) error {
	ts, err := s.readTimestamps.begin()
	if err != nil {
		return err
	}
	defer s.readTimestamps.end(ts)
	return s.viewAt(ts, read)
}
