package query

import (
	"context"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// GetRunRequest is the argument of [Service.GetRun].
type GetRunRequest struct {
	runtime.RunRef
	// AtSeq selects the state of the run after the commit that contains this record. 0 means the newest
	// state.
	AtSeq uint64
	// Artifacts means that the answer contains the values of the artifacts, as they were at AtSeq.
	Artifacts bool
}

// GetRun returns the state of a run, now or at a past record. A past state is replayed from the last
// checkpoint before it. A replay executes no tools or models.
func (r *Service) GetRun(ctx context.Context, req GetRunRequest) (runtime.RunView, error) {
	key, err := r.cfg.Engine.FindReadable(req.RunRef)
	if err != nil {
		return runtime.RunView{}, err
	}
	s, err := r.cfg.Engine.StateOf(ctx, key, req.AtSeq)
	if err != nil {
		return runtime.RunView{}, err
	}
	view := runtime.RunView{State: s}
	if !req.Artifacts {
		return view, nil
	}
	at := s.Seq
	if req.AtSeq != 0 {
		at = req.AtSeq
	}
	view.Artifacts, err = r.cfg.Past.Artifacts(ctx, key, s, at)
	return view, err
}

// ListRunsRequest is the argument of [Service.ListRuns].
type ListRunsRequest struct {
	runtime.Call
	Filter machine.RunFilter
	// PageToken is the NextPage of the previous page. "" means the first page.
	PageToken string
	// PageSize is the maximum number of runs in a page, at most 1 000. 0 means 100.
	PageSize int
}

// RunPage is one page of runs.
type RunPage struct {
	Runs []*machine.State
	// NextPage is the token of the next page. It is "" if there is none.
	NextPage string
}

// Cut shortens the page to its first n runs, so that the next page begins after them. n must be at
// least 1.
func (p *RunPage) Cut(n int) {
	if n < len(p.Runs) {
		p.Runs, p.NextPage = p.Runs[:n], p.Runs[n-1].RunID
	}
}

// ListRuns lists runs in the order of their creation, the newest first, unless the filter asks for the
// oldest first.
func (r *Service) ListRuns(ctx context.Context, req ListRunsRequest) (RunPage, error) {
	ns, err := r.readableNamespace(req.Call)
	if err != nil {
		return RunPage{}, err
	}
	size, err := validate.PageSize(req.PageSize)
	if err != nil {
		return RunPage{}, err
	}
	runs, next, err := r.cfg.Store.ListRuns(ctx, ns, req.Filter, req.PageToken, size)
	if err != nil {
		return RunPage{}, validate.ListFailed("runs", err)
	}
	return RunPage{Runs: runs, NextPage: next}, nil
}

// StateAt returns the state of a run after the commit that contains the record seq. 0 means the newest
// state. A past state is replayed from the last checkpoint before it, so the cost does not grow with
// the length of the journal.
func (r *Service) StateAt(ctx context.Context, ref runtime.RunRef, seq uint64) (*machine.State, error) {
	key, err := r.cfg.Engine.FindReadable(ref)
	if err != nil {
		return nil, err
	}
	return r.cfg.Engine.StateOf(ctx, key, seq)
}

func (r *Service) readableNamespace(call runtime.Call) (uint32, error) {
	return r.cfg.Engine.Admit(call, policy.RunsRead|policy.RunsWrite)
}
