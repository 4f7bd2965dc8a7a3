package store

import (
	"encoding/binary"
	"math"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/store/layout"
)

// watermarks keep the low watermark of each queue: no existing row is due before it. On an LSM tree
// the deleted rows of a queue remain until compaction, and a scan from the beginning would read all
// of them.
//
// Marks are stored at intervals, reduced by watermarkSlack, so that scans after a restart start
// there. Only the committer stores them, in the group that it collects: all rows of that group
// and earlier ones are at or above the mark, and a later row below the mark lowers it in its
// own group.
type watermarks struct {
	mu     sync.Mutex
	queues map[layout.QueueID]*watermark
}

// watermarkSlack is how far a stored watermark is below the one in memory, so that a new row that is
// due now need not lower it.
const watermarkSlack = int64(time.Minute)

type watermark struct {
	low int64
	// stored is the value on disk, MinInt64 if none was stored.
	stored int64
	// top is the latest due time of any row that was set or seen. The watermark does not pass it,
	// because a scan of an empty queue proves nothing about later times.
	top int64
	// collected is the earliest row of the group being collected, flying that of the group in
	// flight; no reader sees these rows yet. seen is the earliest row that was set while a scan
	// ran.
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

// set notes a row that is due at the given time, before any reader can see it. It returns the
// op that lowers the stored mark, if that is necessary.
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

// sent is called when the group being collected is sent: its rows are in flight from then on.
func (m *watermarks) sent() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.queues {
		k.flying, k.collected = k.collected, math.MaxInt64
	}
}

// synced is called when the group in flight is synced: its rows are visible from then on.
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

// finish ends a scan that found no existing row before first. met is the latest row that the scan
// saw, MinInt64 if it saw none.
func (m *watermarks) finish(k *watermark, first, met int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k.top = max(k.top, met)
	k.low = max(k.low, min(first, k.seen, k.top))
	k.scan.Unlock()
}

// rises reports whether the watermark has risen so far that storing it is worthwhile.
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

// moved lists the ops that bring the stored marks up to date, for the group being collected. No
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
