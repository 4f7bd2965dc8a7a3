package store

import (
	"context"
	"maps"
	"sync"

	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// readTimestamps gives out groups to read at. What a group superseded vanishes once it is let go of,
// so that may never pass a read under way.
type readTimestamps struct {
	mu sync.Mutex
	// ts is the last synced group, tails its newest cursor per namespace.
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

// begin returns the timestamp of a read, to be given back to end.
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

// publish makes a synced group visible.
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

// namespaces that hold anything.
func (r *readTimestamps) namespaces() []uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]uint32, 0, len(r.tails))
	for ns := range r.tails {
		out = append(out, ns)
	}
	return out
}

// oldest is the timestamp at or below which no read needs a superseded version.
func (r *readTimestamps) oldest() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	oldest := r.ts
	for ts := range r.active {
		oldest = min(oldest, ts)
	}
	return oldest
}

// shut refuses new reads and waits for those under way.
func (r *readTimestamps) shut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for len(r.active) > 0 {
		r.idle.Wait()
	}
}

// txnOf reads a snapshot, which it closes.
func (s *Store) txnOf(snap kv.Snapshot) *layout.Txn {
	txn := &layout.Txn{View: kv.On(snap)}
	if keys := s.engine.Keys(); keys != nil {
		txn.Keys = keys
	}
	return txn
}

// reading closes a view and gives errors their type. If a read failed, its error is returned,
// even if the function ignored it.
func reading(txn *layout.Txn, read func(txn *layout.Txn) error) error {
	defer txn.Close()
	err := read(txn)
	if failed := txn.Err(); failed != nil {
		return failed
	}
	return layout.Typed(err)
}

// viewAt reads at a group, or a later one.
func (s *Store) viewAt(group uint64, read func(txn *layout.Txn) error) error {
	return reading(s.txnOf(s.engine.View(group)), read)
}

// inView is the key of the view in which a context is used.
type inView struct{ of *Store }

// viewIn reads in the view that ctx belongs to. Where a view holds a connection, this prevents
// a deadlock: a second view would wait for a connection that the caller itself may hold.
// Without a view in ctx it works like view.
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
