package streams

import (
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// watchPage bounds the entries that a watch reads at once. oneEntry is the bound if the shared memory
// budget is used up.
var (
	watchPage = machine.Page{Records: 256, Bytes: 1 << 20}
	oneEntry  = machine.Page{Records: 1, Bytes: 1}
)

// pages is the memory budget that all watches (streams of records to readers) share. It counts pages
// that were read but not yet delivered. A watch that gets no part of the budget reads single entries.
// So slow readers make the pages of other readers smaller, but never block them. Safe for concurrent
// use.
type pages struct {
	limit int64
	used  atomic.Int64
}

// take reserves the memory of a whole page and returns its size in bytes. It returns 0 if the budget
// is used up.
func (p *pages) take() int64 {
	const want = 1 << 20
	if p.used.Add(want) <= p.limit {
		return want
	}
	p.used.Add(-want)
	return 0
}

// release returns reserved memory to the budget.
func (p *pages) release(bytes int64) { p.used.Add(-bytes) }

// mayRead frees the memory of the last page, reserves memory for the next page and returns its bounds.
func (w *Watch) mayRead() machine.Page {
	w.forget()
	if w.pageBytes = w.r.pages.take(); w.pageBytes == 0 {
		return oneEntry
	}
	return watchPage
}

// forget returns the memory of the last page to the shared budget.
func (w *Watch) forget() {
	w.r.pages.release(w.pageBytes)
	w.pageBytes = 0
}

// rowBytes estimates the memory of a record with its snapshot, in bytes.
func rowBytes(row *runtime.RecordRow) int64 {
	return recordBytes(row.Record.Body) + snapshotBytes(row.Snapshot)
}
