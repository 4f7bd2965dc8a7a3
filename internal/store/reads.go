package store

import (
	"maps"
	"sync"

	"github.com/pawl-dev/pawl/internal/store/layout"
)

// reads gives out timestamps to read at. In Badger's managed mode versions older
// than the discard timestamp vanish, so it may never pass a read under way.
type reads struct {
	mu sync.Mutex
	// ts is the last synced group, tails its newest cursor per namespace.
	ts     uint64
	tails  map[uint32]uint64
	active map[uint64]int
	closed bool
	idle   *sync.Cond
}

func newReads(ts uint64, tails map[uint32]uint64) *reads {
	r := &reads{ts: ts, tails: maps.Clone(tails), active: make(map[uint64]int)}
	r.idle = sync.NewCond(&r.mu)
	return r
}

// begin returns the timestamp of a read, to be given back to end.
func (r *reads) begin() (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, ErrClosed
	}
	r.active[r.ts]++
	return r.ts, nil
}

func (r *reads) end(ts uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.active[ts]--; r.active[ts] == 0 {
		delete(r.active, ts)
	}
	if len(r.active) == 0 {
		r.idle.Broadcast()
	}
}

func (r *reads) durable() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ts
}

// publish makes a synced group visible.
func (r *reads) publish(ts uint64, tails map[uint32]uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ts = ts
	maps.Copy(r.tails, tails)
}

func (r *reads) tail(ns uint32) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tails[ns]
}

// namespaces that hold anything.
func (r *reads) namespaces() []uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]uint32, 0, len(r.tails))
	for ns := range r.tails {
		out = append(out, ns)
	}
	return out
}

// oldest is the timestamp at or below which no read needs a superseded version.
func (r *reads) oldest() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	oldest := r.ts
	for ts := range r.active {
		oldest = min(oldest, ts)
	}
	return oldest
}

// shut refuses new reads and waits for those under way.
func (r *reads) shut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for len(r.active) > 0 {
		r.idle.Wait()
	}
}

// txnAt reads, or writes, at a timestamp.
func (s *Store) txnAt(ts uint64, update bool) *layout.Txn {
	txn := &layout.Txn{Txn: s.db.NewTransactionAt(ts, update)}
	if s.keys != nil {
		txn.Keys = s.keys
	}
	return txn
}

// view reads at the last synced group.
func (s *Store) view(read func(txn *layout.Txn) error) error {
	ts, err := s.reads.begin()
	if err != nil {
		return err
	}
	defer s.reads.end(ts)
	txn := s.txnAt(ts, false)
	defer txn.Discard()
	return layout.Typed(read(txn))
}
