package store

import (
	"encoding/binary"
	"math"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/store/layout"
)

// watermarks contain the low watermark of each queue. No existing row of the queue is due before it.
// Watermarks are necessary because in an LSM tree the deleted rows of a queue stay until they are
// compacted, and a scan from the beginning would read all of them.
//
// Watermarks are stored at intervals, lowered by watermarkSlack, so that scans after a restart start
// there. Only the committer stores them, in the group that it collects. All rows of that group and of
// earlier groups are at or above the watermark. If a later row is below the watermark, it lowers the
// watermark in its own group.
type watermarks struct {
	mu     sync.Mutex
	queues map[layout.QueueID]*watermark
}

// watermarkSlack is the time by which a stored watermark is lower than the one in memory. With it, a
// new row that is due now does not have to lower the stored watermark.
const watermarkSlack = int64(time.Minute)

type watermark struct {
	low int64
	// stored is the stored value. It is MinInt64 if none was stored.
	stored int64
	// top is the latest due time of any row that was set or read. The watermark does not rise above it,
	// because a scan of an empty queue proves nothing about later times.
	top int64
	// collected is the earliest row of the group that is being collected. flying is the earliest row of
	// the group in flight. No reader sees these rows yet. seen is the earliest row that was set while a
	// scan ran.
	collected, flying, seen int64
	scan                    sync.Mutex
}

func (m *watermarks) get(q layout.QueueID) *watermark {
	k := m.queues[q]
	if k == nil {
		k = &watermark{low: math.MinInt64, stored: math.MinInt64, top: math.MinInt64, collected: math.MaxInt64, flying: math.MaxInt64, seen: math.MaxInt64}
		m.queues[q] = k
	}
	return k
}

// set records that a row is due at the given time. It must be called before any reader can see the row.
// If the stored watermark must be lowered, set returns the op that does this.
func (m *watermarks) set(q layout.QueueID, at int64) *layout.Op {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.get(q)
	k.low, k.collected, k.seen, k.top = min(k.low, at), min(k.collected, at), min(k.seen, at), max(k.top, at)
	if at >= k.stored {
		return nil
	}
	k.stored = at - watermarkSlack
	return layout.MarkOp(q, k.stored)
}

// sent is called when the group that was collected is sent. Its rows are then in flight.
func (m *watermarks) sent() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.queues {
		k.flying, k.collected = k.collected, math.MaxInt64
	}
}

// synced is called when the group in flight is synced. Its rows are then visible.
func (m *watermarks) synced() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.queues {
		k.flying = math.MaxInt64
	}
}

// begin starts a scan and returns the watermark at which the scan starts. The caller must call
// finish. Scans of one queue run one after the other.
func (m *watermarks) begin(q layout.QueueID) (*watermark, int64) {
	m.mu.Lock()
	k := m.get(q)
	m.mu.Unlock()
	k.scan.Lock()
	m.mu.Lock()
	defer m.mu.Unlock()
	k.seen = min(k.collected, k.flying)
	return k, k.low
}

// finish ends a scan that found no existing row before first. met is the latest row that the scan read.
// It is MinInt64 if the scan read none.
func (m *watermarks) finish(k *watermark, first, met int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k.top = max(k.top, met)
	k.low = max(k.low, min(first, k.seen, k.top))
	k.scan.Unlock()
}

// rises reports whether the watermark has risen far enough to make storing it worthwhile.
func (k *watermark) rises() bool {
	return k.low > math.MinInt64+watermarkSlack && k.low-watermarkSlack > k.stored
}

// behind counts the watermarks that moved would store.
func (m *watermarks) behind() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.queues {
		if k.rises() {
			n++
		}
	}
	return n
}

// moved lists the ops that update the stored watermarks, for the group that is being collected. No
// other batch may be admitted between this call and those ops.
func (m *watermarks) moved() []layout.Op {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ops []layout.Op
	for q, k := range m.queues {
		if k.rises() {
			k.stored = k.low - watermarkSlack
			ops = append(ops, *layout.MarkOp(q, k.stored))
		}
	}
	return ops
}

// load sets a watermark from its stored row when the store is opened.
func (m *watermarks) load(key []byte, at int64) {
	if len(key) != 6 {
		return
	}
	k := m.get(layout.QueueID{Ns: binary.BigEndian.Uint32(key[1:]), Kind: key[5]})
	k.low, k.stored = at, at
}
