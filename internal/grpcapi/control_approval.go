package grpcapi

import (
	"context"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/query"
)

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
