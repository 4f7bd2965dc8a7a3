package runtime

import (
	"context"
	"errors"
	"strconv"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/request"
)

// findReadable is find for what only reads.
func (e *Engine) FindReadable(ref RunRef) (RunKey, error) {
	key, err := e.Find(ref)
	if err != nil {
		return key, err
	}
	return key, Denied(policy.Require(ref.Principal, policy.RunsRead|policy.RunsWrite))
}

// GetRunRequest is the argument of [Engine.GetRun].
type GetRunRequest struct {
	RunRef
	// AtSeq asks for the run as it was after the commit that holds this record;
	// 0 = now.
	AtSeq uint64
	// Artifacts asks for the values, as of AtSeq exactly.
	Artifacts bool
}

// GetRun reads a run. A past state is a replay of its inputs from the store's
// last checkpoint before it; nothing is executed.
func (e *Engine) GetRun(ctx context.Context, req GetRunRequest) (RunView, error) {
	key, err := e.FindReadable(req.RunRef)
	if err != nil {
		return RunView{}, err
	}
	s, err := e.StateOf(ctx, key, req.AtSeq)
	if err != nil {
		return RunView{}, err
	}
	view := RunView{State: s}
	if !req.Artifacts {
		return view, nil
	}
	at := s.Seq
	if req.AtSeq != 0 {
		at = req.AtSeq
	}
	view.Artifacts, err = e.past.Artifacts(ctx, key, s, at)
	return view, err
}

// ListRunsRequest is the argument of [Engine.ListRuns].
type ListRunsRequest struct {
	Call
	Filter machine.RunFilter
	// PageToken is the previous page's NextPage; "" = from the start.
	PageToken string
	// PageSize is at most 1 000; 0 = 100.
	PageSize int
}

// RunPage is one page of runs.
type RunPage struct {
	Runs []*machine.State
	// NextPage is "" after the last page.
	NextPage string
}

// Cut leaves the first n runs of the page, n >= 1; the next page begins behind
// them.
func (p *RunPage) Cut(n int) {
	if n < len(p.Runs) {
		p.Runs, p.NextPage = p.Runs[:n], p.Runs[n-1].RunID
	}
}

// ListRuns lists runs in the order of their creation, newest first unless the
// filter says otherwise.
func (e *Engine) ListRuns(ctx context.Context, req ListRunsRequest) (RunPage, error) {
	ns, err := e.readableNamespace(req.Call)
	if err != nil {
		return RunPage{}, err
	}
	size, err := request.PageSize(req.PageSize)
	if err != nil {
		return RunPage{}, err
	}
	runs, next, err := e.store.ListRuns(ctx, ns, req.Filter, req.PageToken, size)
	if err != nil {
		return RunPage{}, request.ListFailed("runs", err)
	}
	return RunPage{Runs: runs, NextPage: next}, nil
}

func (e *Engine) readableNamespace(call Call) (uint32, error) {
	ns, err := e.namespace(call.Namespace)
	if err != nil {
		return 0, err
	}
	return ns, Denied(policy.Require(call.Principal, policy.RunsRead|policy.RunsWrite))
}

// ListRecordsRequest is the argument of [Engine.ListTransitions].
type ListRecordsRequest struct {
	RunRef
	// Kinds of records; empty = transitions and the end.
	Kinds []machine.RecordKind
	// AfterSeq is exclusive; a PageToken overrides it.
	AfterSeq  uint64
	PageToken string
	// PageSize is at most 1 000; 0 = 100. A page of large records holds fewer.
	PageSize int
	// Snapshots asks for the run as of each record, artifact values included.
	Snapshots bool
}

// RecordPage is one page of records.
type RecordPage struct {
	Records []RecordRow
	// NextPage is "" if the run has no further record now; a full last page has
	// one, behind which nothing may follow.
	NextPage string
}

// Cut leaves the first n records of the page, n >= 1; the next page begins
// behind them.
func (p *RecordPage) Cut(n int) {
	if n < len(p.Records) {
		p.Records, p.NextPage = p.Records[:n], strconv.FormatUint(p.Records[n-1].Record.Seq, 10)
	}
}

// ListTransitions lists a run's records in order.
func (e *Engine) ListTransitions(ctx context.Context, req ListRecordsRequest) (RecordPage, error) {
	// A watch without a run is one of all runs.
	if _, err := e.FindReadable(req.RunRef); err != nil {
		return RecordPage{}, err
	}
	size, err := request.PageSize(req.PageSize)
	if err != nil {
		return RecordPage{}, err
	}
	after := req.AfterSeq
	if req.PageToken != "" {
		if after, err = strconv.ParseUint(req.PageToken, 10, 64); err != nil {
			return RecordPage{}, request.Malformed("BAD_PAGE_TOKEN", "page_token", "is not a token of this list")
		}
	}
	w, err := e.Watch(ctx, WatchRequest{
		Call: req.Call, Filter: WatchFilter{RunID: req.RunID, Kinds: req.Kinds}, AfterSeq: after,
		Snapshots: req.Snapshots,
	})
	if err != nil {
		return RecordPage{}, err
	}
	defer w.Close()
	return collect(ctx, w, size)
}

// maxListBytes bounds about what the records of one page hold; the record that
// passes it is the last one.
const maxListBytes = 2 << 20

// collect takes one page from a watch that does not follow.
func collect(ctx context.Context, w *Watch, size int) (RecordPage, error) {
	var page RecordPage
	held := int64(0)
	for {
		batch, err := w.Next(ctx)
		if errors.Is(err, ErrWatchEnded) {
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

func snapshotBytes(view *RunView) int64 {
	if view == nil {
		return 0
	}
	var size int64
	for i := range view.Artifacts {
		size += int64(len(view.Artifacts[i].Value))
	}
	return size
}
