package streams

import (
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// watchPage bounds one page of a watch. oneEntry is the bound that a watch uses when the shared budget
// is used up.
var (
	watchPage = machine.Page{Records: 256, Bytes: 1 << 20}
	oneEntry  = machine.Page{Records: 1, Bytes: 1}
)

// pages is the memory budget that all watches share. It counts pages that were read but not yet
// delivered. A watch that gets no part of the budget reads single entries. So slow readers make the
// pages of other readers smaller, but never block them. Safe for concurrent use.
type pages struct {
	limit int64
	used  atomic.Int64
}

// take reserves the bytes of a whole page and returns their number. It returns 0 if the budget is used
// up.
func (p *pages) take() int64 {
	const want = 1 << 20
	if p.used.Add(want) <= p.limit {
		return want
	}
	p.used.Add(-want)
	return 0
}

// give returns reserved bytes to the budget.
func (p *pages) give(bytes int64) { p.used.Add(-bytes) }

// mayRead releases the memory of the last page and returns the bounds of the next page.
func (w *Watch) mayRead() machine.Page {
	w.forget()
	if w.pageBytes = w.r.pages.take(); w.pageBytes == 0 {
		return oneEntry
	}
	return watchPage
}

// forget returns the memory of the last page to the shared budget.
func (w *Watch) forget() {
	w.r.pages.give(w.pageBytes)
	w.pageBytes = 0
}

// rowBytes estimates the memory of a row, in bytes.
func rowBytes(row *runtime.RecordRow) int64 {
	return recordBytes(row.Record.Body) + snapshotBytes(row.Snapshot)
}
