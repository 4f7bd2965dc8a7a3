package runtime

import (
	"context"

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
	ns, err := e.Namespace(call.Namespace)
	if err != nil {
		return 0, err
	}
	return ns, Denied(policy.Require(call.Principal, policy.RunsRead|policy.RunsWrite))
}
