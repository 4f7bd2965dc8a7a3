package grpcapi

import (
	"context"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
)

// ShowTurn implements pawl.v1.RunService.
func (s *runService) ShowTurn(ctx context.Context, in *pawlv1.ShowTurnRequest) (*pawlv1.ShowTurnResponse, error) {
	ref := refOf(ctx, in)
	view, err := s.views.ShowTurn(ctx, ref, in.GetTurnSeq())
	if err != nil {
		return nil, err
	}
	turn, err := s.turnResponse(ctx, ref.Namespace, &view)
	if err != nil {
		return nil, err
	}
	out := &pawlv1.ShowTurnResponse{Turn: turn}
	return out, s.redactor.Hide(ctx, ref.Call, view.Run, out)
}

// CountRuns implements pawl.v1.RunService.
func (s *runService) CountRuns(ctx context.Context, in *pawlv1.CountRunsRequest) (*pawlv1.CountRunsResponse, error) {
	counts, err := s.views.CountRuns(ctx, callOf(ctx, in.GetNamespace()))
	if err != nil {
		return nil, err
	}
	out := &pawlv1.CountRunsResponse{}
	for _, c := range counts {
		out.Counts = append(out.Counts, &pawlv1.StatusCount{Status: pawlv1.RunStatus(c.Status), Runs: int64(c.Runs)})
	}
	return out, nil
}

// GetCaller implements pawl.v1.RunService.
func (s *runService) GetCaller(ctx context.Context, _ *pawlv1.GetCallerRequest) (*pawlv1.GetCallerResponse, error) {
	p := auth.CallerOf(ctx)
	return &pawlv1.GetCallerResponse{Principal: p.Name(), Scopes: p.Scopes.Names(), Namespaces: p.Spaces(s.engine.Namespaces())}, nil
}
