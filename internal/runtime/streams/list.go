package streams

import (
	"context"
	"errors"
	"strconv"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// ListRecordsRequest is the argument of [Service.ListTransitions].
type ListRecordsRequest struct {
	runtime.RunRef
	// Kinds are the selected kinds of records. If it is empty, transitions and the end of the run are selected.
	Kinds []machine.RecordKind
	// AfterSeq is the record after which the list begins. A PageToken replaces it.
	AfterSeq  uint64
	PageToken string
	// PageSize is the maximum number of records in a page, at most 1 000. 0 means 100. A page of large
	// records has fewer records.
	PageSize int
	// Snapshots adds the run to each record, as it was after the record, with the values of its
	// artifacts.
	Snapshots bool
}

// RecordPage is one page of records.
type RecordPage struct {
	Records []runtime.RecordRow
	// NextPage is the token of the next page. It is "" if the run has no further record now. After a
	// full page it may be set even if no record follows.
	NextPage string
}

// Cut shortens the page to its first n records. n must be at least 1. The next page begins after these
// records.
func (p *RecordPage) Cut(n int) {
	if n < len(p.Records) {
		p.Records, p.NextPage = p.Records[:n], strconv.FormatUint(p.Records[n-1].Record.Seq, 10)
	}
}

// ListTransitions lists a run's records in order.
func (r *Service) ListTransitions(ctx context.Context, req ListRecordsRequest) (RecordPage, error) {
	// Without this check, an empty run id would open a watch of all runs.
	if _, err := r.cfg.Engine.FindReadable(req.RunRef); err != nil {
		return RecordPage{}, err
	}
	size, err := validate.PageSize(req.PageSize)
	if err != nil {
		return RecordPage{}, err
	}
	after := req.AfterSeq
	if req.PageToken != "" {
		if after, err = strconv.ParseUint(req.PageToken, 10, 64); err != nil {
			return RecordPage{}, validate.Malformed("BAD_PAGE_TOKEN", "page_token", "is not a token of this list")
		}
	}
	w, err := r.Watch(ctx, Request{
		Call: req.Call, Filter: Filter{RunID: req.RunID, Kinds: req.Kinds}, AfterSeq: after,
		Snapshots: req.Snapshots,
	})
	if err != nil {
		return RecordPage{}, err
	}
	defer w.Close()
	return collect(ctx, w, size)
}

// maxListBytes is the approximate bound of the records of one page, in bytes. The record that exceeds it is the last record of the page.
const maxListBytes = 2 << 20

// collect reads one page from a watch that does not wait for later records.
func collect(ctx context.Context, w *Watch, size int) (RecordPage, error) {
	var page RecordPage
	held := int64(0)
	for {
		batch, err := w.Next(ctx)
		if errors.Is(err, ErrEnded) {
			return page, nil
		}
		if err != nil {
			return page, err
		}
		for _, row := range batch.Records {
			page.Records = append(page.Records, row)
			held += rowBytes(&row)
			if len(page.Records) == size || held > maxListBytes {
				page.NextPage = strconv.FormatUint(row.Record.Seq, 10)
				return page, nil
			}
		}
	}
}

func snapshotBytes(view *runtime.RunView) int64 {
	if view == nil {
		return 0
	}
	var size int64
	for i := range view.Artifacts {
		size += int64(len(view.Artifacts[i].Value))
	}
	return size
}
