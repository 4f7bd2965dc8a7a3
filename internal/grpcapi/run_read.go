package grpcapi

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/query"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// defaultWait is how long WaitRun waits if the request has no timeout.
const defaultWait = 30 * time.Second

// GetRun implements pawl.v1.RunService.
func (s *runService) GetRun(ctx context.Context, in *pawlv1.GetRunRequest) (*pawlv1.GetRunResponse, error) {
	ref := refOf(ctx, in)
	view, err := s.views.GetRun(ctx, query.GetRunRequest{RunRef: ref, AtSeq: in.GetAtSeq(), Artifacts: in.GetIncludeArtifacts()})
	if err != nil {
		return nil, err
	}
	run, err := s.run(ctx, ref.Namespace, view.State)
	if err != nil {
		return nil, err
	}
	if in.GetAtSeq() == 0 {
		if err := s.setWaiting(ctx, run, view.State); err != nil {
			return nil, err
		}
	}
	began, err := s.views.RunOriginOf(ctx, ref.Namespace, view.State)
	if err != nil {
		return nil, err
	}
	out := &pawlv1.GetRunResponse{
		Run: run, Artifacts: convert.ArtifactsToProto(view.State.Artifacts, view.Artifacts),
		Budgets: convert.BudgetsToProto(&began), RequestId: began.RequestID,
	}
	if in.GetIncludeVariables() {
		out.VariablesJson, out.Goal = string(began.Variables), began.Goal
	}
	return out, s.redactor.Hide(ctx, ref.Call, view.State, out)
}

// list reads a page of runs. If the filter selects runs that no connected worker serves, or that wait
// for something, it lists only these.
func (s *runService) list(ctx context.Context, req *query.ListRunsRequest, filter *pawlv1.RunFilter) (page query.RunPage, err error) {
	switch {
	case filter.GetUnserved():
		page.Runs, page.NextPage, err = s.work.Unserved(ctx, dispatch.UnservedRequest{
			Call: req.Call, Filter: req.Filter, PageToken: req.PageToken, PageSize: req.PageSize,
		})
		return page, err
	case len(filter.GetWaiting()) > 0:
		return s.listWaiting(ctx, *req, filter.GetWaiting())
	}
	return s.views.ListRuns(ctx, *req)
}

// maxWaitingScan bounds the runs that ListRuns examines for one page if its filter names what runs wait
// for.
const maxWaitingScan = 10_000

// listWaiting lists the runs that wait for one of the kinds. A page can have fewer runs than requested
// although more pages follow.
func (s *runService) listWaiting(ctx context.Context, req query.ListRunsRequest, kinds []pawlv1.WaitingKind) (all query.RunPage, err error) {
	if len(req.Filter.Status) == 0 {
		req.Filter.Status = []machine.Status{machine.Running, machine.Waiting}
	}
	most := cmp.Or(req.PageSize, validate.DefaultPageSize)
	req.PageSize = max(most, validate.DefaultPageSize)
	for scanned := 0; len(all.Runs) < most && scanned < maxWaitingScan; {
		page, err := s.views.ListRuns(ctx, req)
		if err != nil {
			return query.RunPage{}, err
		}
		for i, state := range page.Runs {
			graph, err := s.views.Graph(ctx, req.Namespace, state)
			if err != nil {
				return query.RunPage{}, err
			}
			if !slices.Contains(kinds, pawlv1.WaitingKind(s.waits.Kind(state, graph))) {
				continue
			}
			if all.Runs = append(all.Runs, state); len(all.Runs) == most {
				page.Cut(i + 1)
				break
			}
		}
		scanned += len(page.Runs)
		all.NextPage, req.PageToken = page.NextPage, page.NextPage
		if page.NextPage == "" {
			break
		}
	}
	return all, nil
}

// ListRuns implements pawl.v1.RunService.
func (s *runService) ListRuns(ctx context.Context, in *pawlv1.ListRunsRequest) (*pawlv1.ListRunsResponse, error) {
	position, err := convert.PagePosition(in)
	if err != nil {
		return nil, err
	}
	req := query.ListRunsRequest{
		Call: callOf(ctx, in.GetNamespace()), Filter: convert.FilterFromProto(in.GetFilter()),
		PageToken: position, PageSize: int(in.GetPageSize()),
	}
	req.Filter.Oldest = in.GetOrder() == pawlv1.RunOrder_RUN_ORDER_OLDEST_FIRST
	page, err := s.list(ctx, &req, in.GetFilter())
	if err != nil {
		return nil, err
	}
	out, sizer := &pawlv1.ListRunsResponse{}, convert.PageSizer{}
	for i, state := range page.Runs {
		run, err := s.run(ctx, req.Namespace, state)
		if err != nil {
			return nil, err
		}
		if err := s.setWaiting(ctx, run, state); err != nil {
			return nil, err
		}
		if !sizer.TryAdd(run) {
			page.Cut(i)
			break
		}
		out.Runs = append(out.Runs, run)
	}
	out.NextPageToken = convert.PageToken(in, page.NextPage)
	return out, nil
}

// ListTransitions implements pawl.v1.RunService.
func (s *runService) ListTransitions(ctx context.Context, in *pawlv1.ListTransitionsRequest) (*pawlv1.ListTransitionsResponse, error) {
	ref := refOf(ctx, in)
	position, err := convert.PagePosition(in)
	if err != nil {
		return nil, err
	}
	page, err := s.watches.ListTransitions(ctx, streams.ListRecordsRequest{
		RunRef: ref, Kinds: convert.KindsFromProto(in.GetKinds()), AfterSeq: in.GetAfterSeq(),
		PageToken: position, PageSize: int(in.GetPageSize()), Snapshots: in.GetSnapshots(),
	})
	if err != nil {
		return nil, err
	}
	show := newRecordEncoder(s, ref.Call)
	out, sizer := &pawlv1.ListTransitionsResponse{}, convert.PageSizer{}
	for i := range page.Records {
		item, err := show.item(ctx, &page.Records[i])
		if err != nil {
			return nil, err
		}
		if !sizer.TryAdd(item) {
			page.Cut(i)
			break
		}
		out.Records = append(out.Records, item.GetRecord())
		if in.GetSnapshots() {
			out.Snapshots = append(out.Snapshots, item.GetSnapshot())
		}
	}
	out.NextPageToken = convert.PageToken(in, page.NextPage)
	return out, nil
}

// WaitRun implements pawl.v1.RunService.
func (s *runService) WaitRun(ctx context.Context, in *pawlv1.WaitRunRequest) (*pawlv1.WaitRunResponse, error) {
	leave, err := s.streams.Enter(ctx, in.GetNamespace())
	if err != nil {
		return nil, err
	}
	defer leave()
	wait := defaultWait
	if in.GetTimeout() != nil {
		wait = in.GetTimeout().AsDuration()
	}
	state, settled, err := s.await(ctx, refOf(ctx, in), in.GetUntil(), wait)
	if err != nil {
		return nil, err
	}
	run, err := s.run(ctx, callOf(ctx, in.GetNamespace()).Namespace, state)
	if err != nil {
		return nil, err
	}
	return &pawlv1.WaitRunResponse{Run: run, TimedOut: !settled}, s.setWaiting(ctx, run, state)
}

// setWaiting adds what the run waits for now.
func (s *runService) setWaiting(ctx context.Context, run *pawlv1.Run, state *machine.State) error {
	graph, err := s.views.Graph(ctx, run.GetNamespace(), state)
	if err != nil {
		return err
	}
	run.LimitWaits = convert.LimitWaitListToProto(s.admission.WaitingCalls(runtime.RunKey{Namespace: state.Namespace, ID: state.RunID}))
	run.Waiting = convert.WaitingToProto(s.waits.ReasonFor(ctx, state, graph))
	return nil
}

// await waits until the run has reached the wanted state, the timeout has passed, or the server ends. In the last two
// cases it reads the run again. settled reports whether the run has reached the state.
func (s *runService) await(ctx context.Context, ref runtime.RunRef, until pawlv1.WaitUntil, wait time.Duration) (*machine.State, bool, error) {
	bounded, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	go func() {
		select {
		case <-s.draining:
			cancel()
		case <-bounded.Done():
		}
	}()
	req := streams.WaitRequest{RunRef: ref}
	for {
		state, settled, err := s.watches.WaitRun(bounded, req)
		if err != nil && errors.Is(err, bounded.Err()) && ctx.Err() == nil {
			view, err := s.views.GetRun(ctx, query.GetRunRequest{RunRef: ref})
			return view.State, err == nil && satisfiesWait(view.State, until), err
		}
		if err != nil || !settled {
			return state, false, err
		}
		if satisfiesWait(state, until) {
			return state, true, nil
		}
		req.AfterSeq = state.Seq
	}
}

// satisfiesWait reports whether a run has reached the state that a caller waits for.
func satisfiesWait(s *machine.State, until pawlv1.WaitUntil) bool {
	return s.Status.Terminal() || until == pawlv1.WaitUntil_WAIT_UNTIL_WAITING && s.Status == machine.Waiting
}
