package streams

import (
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// watchPage bounds one page of a watch; oneEntry is what one reads that no more room
// is left for.
var (
	watchPage = machine.Page{Records: 256, Bytes: 1 << 20}
	oneEntry  = machine.Page{Records: 1, Bytes: 1}
)

// pages is the room that all watches share for what they have read and their readers
// have not taken. A watch that finds none goes on entry by entry, so that slow readers
// make others read in smaller pieces, and never wait.
type pages struct {
	limit int64
	used  atomic.Int64
}

// take reserves room for a whole page, or none.
func (p *pages) take() int64 {
	const want = 1 << 20
	if p.used.Add(want) <= p.limit {
		return want
	}
	p.used.Add(-want)
	return 0
}

func (p *pages) give(room int64) { p.used.Add(-room) }

// mayRead is how much the watch may read now.
func (w *Watch) mayRead() machine.Page {
	w.forget()
	if w.pageBytes = w.r.pages.take(); w.pageBytes == 0 {
		return oneEntry
	}
	return watchPage
}

// forget gives back the room of the page that was read last.
func (w *Watch) forget() {
	w.r.pages.give(w.pageBytes)
	w.pageBytes = 0
}

// rowBytes estimates what a row holds in memory.
func rowBytes(row *runtime.RecordRow) int64 {
	return recordBytes(row.Record.Body) + snapshotBytes(row.Snapshot)
}
