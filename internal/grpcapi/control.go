package grpcapi

import (
	"cmp"
	"context"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/query"
	"github.com/pawl-dev/pawl/internal/runtime/schedule"
)

// controlService implements pawl.v1.ControlService. Its calls that change a run use [handleUnary], like
// those of RunService.
type controlService struct {
	pawlv1.UnimplementedControlServiceServer
	server    *Server
	runs      *runService
	schedules *schedule.Scheduler
}

// ListSchedules implements pawl.v1.ControlService.
func (s *controlService) ListSchedules(ctx context.Context, in *pawlv1.ListSchedulesRequest) (*pawlv1.ListSchedulesResponse, error) {
	shown, err := s.schedules.ListSchedules(callOf(ctx, in.GetNamespace()))
	if err != nil {
		return nil, err
	}
	return convert.SchedulesToProto(shown), nil
}

// RaiseBudget implements pawl.v1.ControlService.
func (s *controlService) RaiseBudget(ctx context.Context, in *pawlv1.RaiseBudgetRequest) (*pawlv1.RaiseBudgetResponse, error) {
	return handleUnary(ctx, s.runs, in, convert.RaiseFromProto, s.runs.engine.Apply, func(a *convert.Answer) *pawlv1.RaiseBudgetResponse {
		return &pawlv1.RaiseBudgetResponse{
			Record: a.Record(machine.RecBudgetRaised), Remaining: a.Remaining(), Status: a.Status(), Seq: a.Seq(), Duplicate: a.Duplicate,
		}
	})
}

// SteerRun implements pawl.v1.ControlService.
func (s *controlService) SteerRun(ctx context.Context, in *pawlv1.SteerRunRequest) (*pawlv1.SteerRunResponse, error) {
	return handleUnary(ctx, s.runs, in, convert.SteerFromProto, s.runs.engine.Apply, convert.Steered)
}

// StopRun implements pawl.v1.ControlService.
func (s *controlService) StopRun(ctx context.Context, in *pawlv1.StopRunRequest) (*pawlv1.StopRunResponse, error) {
	return handleUnary(ctx, s.runs, in, convert.StopFromProto, s.runs.engine.Apply, convert.Stopped)
}

// ListLimits implements pawl.v1.ControlService.
func (s *controlService) ListLimits(context.Context, *pawlv1.ListLimitsRequest) (*pawlv1.ListLimitsResponse, error) {
	return convert.LimitsToProto(s.runs.admission.Limits(), s.runs.admission.Figures()), nil
}

// listPage is the default number of rows in a page of a list.
const listPage = 100

// ListBudgets implements pawl.v1.ControlService.
func (s *controlService) ListBudgets(ctx context.Context, in *pawlv1.ListBudgetsRequest) (*pawlv1.ListBudgetsResponse, error) {
	after, err := convert.PagePosition(in)
	if err != nil {
		return nil, err
	}
	most := cmp.Or(int(in.GetPageSize()), listPage)
	views, more, err := s.runs.engine.Accounts(callOf(ctx, in.GetNamespace()), in.GetNamePrefix(), after, most)
	if err != nil {
		return nil, err
	}
	out := &pawlv1.ListBudgetsResponse{Accounts: make([]*pawlv1.Account, len(views))}
	for i := range views {
		out.Accounts[i] = convert.AccountToProto(&views[i])
	}
	if more {
		out.NextPageToken = convert.PageToken(in, views[len(views)-1].Name)
	}
	return out, nil
}

// DecideStep implements pawl.v1.ControlService.
func (s *controlService) DecideStep(ctx context.Context, in *pawlv1.DecideStepRequest) (*pawlv1.DecideStepResponse, error) {
	return handleUnary(ctx, s.runs, in, convert.DecideFromProto, s.runs.engine.Apply, func(a *convert.Answer) *pawlv1.DecideStepResponse {
		return &pawlv1.DecideStepResponse{Decided: a.Record(machine.RecStepDecided), Status: a.Status(), Seq: a.Seq(), Duplicate: a.Duplicate}
	})
}

// ListApprovals implements pawl.v1.ControlService.
func (s *controlService) ListApprovals(ctx context.Context, in *pawlv1.ListApprovalsRequest) (*pawlv1.ListApprovalsResponse, error) {
	call := callOf(ctx, in.GetNamespace())
	links, err := s.server.linksFor(call, in.GetLinkFor())
	if err != nil {
		return nil, err
	}
	page, err := s.runs.views.Approvals(ctx, query.ApprovalsRequest{
		Call: call, RunID: in.GetRunId(), OldestFirst: in.GetOrder() == pawlv1.RunOrder_RUN_ORDER_OLDEST_FIRST,
		PageToken: in.GetPageToken(), PageSize: int(in.GetPageSize()),
	})
	if err != nil {
		return nil, err
	}
	out := &pawlv1.ListApprovalsResponse{NextPageToken: page.NextPage}
	for i := range page.Waiting {
		w := &page.Waiting[i]
		shown := convert.ApprovalToProto(w)
		if err := links.add(ctx, s, call.Namespace, w, shown); err != nil {
			return nil, err
		}
		if err := s.runs.redactor.Hide(ctx, call, w.State, shown); err != nil {
			return nil, err
		}
		out.Approvals = append(out.Approvals, shown)
	}
	return out, nil
}

// QueryUsage implements pawl.v1.ControlService.
func (s *controlService) QueryUsage(ctx context.Context, in *pawlv1.QueryUsageRequest) (*pawlv1.QueryUsageResponse, error) {
	position, err := convert.PagePosition(in)
	if err != nil {
		return nil, err
	}
	page, err := s.runs.views.Usage(ctx, convert.UsageFromProto(callOf(ctx, in.GetNamespace()), in, position))
	if err != nil {
		return nil, err
	}
	return convert.UsageToProto(in, &page), nil
}

// ListDecisions implements pawl.v1.ControlService.
func (s *controlService) ListDecisions(ctx context.Context, in *pawlv1.ListDecisionsRequest) (*pawlv1.ListDecisionsResponse, error) {
	position, err := convert.PagePosition(in)
	if err != nil {
		return nil, err
	}
	call := callOf(ctx, in.GetNamespace())
	page, err := s.runs.views.Decisions(ctx, convert.DecisionsFromProto(call, in, position))
	if err != nil {
		return nil, err
	}
	out := &pawlv1.ListDecisionsResponse{NextPageToken: convert.PageToken(in, page.Next), RemovedEntries: page.Removed}
	for i := range page.Decisions {
		d := &page.Decisions[i]
		shown := convert.DecisionToProto(d)
		if err := s.runs.redactor.Hide(ctx, call, d.State, shown); err != nil {
			return nil, err
		}
		out.Decisions = append(out.Decisions, shown)
	}
	return out, nil
}
