package grpcapi

import (
	"context"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// GetTurn implements pawl.v1.RunService.
func (s *runService) GetTurn(ctx context.Context, in *pawlv1.GetTurnRequest) (*pawlv1.GetTurnResponse, error) {
	ref := refOf(ctx, in)
	view, err := s.engine.GetTurn(ctx, ref)
	if err != nil {
		return nil, err
	}
	return s.turnResponse(ctx, ref.Namespace, &view)
}

// CompleteTurn implements pawl.v1.RunService.
func (s *runService) CompleteTurn(ctx context.Context, in *pawlv1.CompleteTurnRequest) (*pawlv1.CompleteTurnResponse, error) {
	req, err := completeFromProto(ctx, in)
	if err != nil {
		return nil, err
	}
	got, err := s.engine.CompleteTurn(ctx, req)
	a, err := s.answer(ctx, req.Call, got, s.withWinner(ctx, req.RunRef, err))
	if err != nil {
		return nil, err
	}
	return &pawlv1.CompleteTurnResponse{
		Record: a.record(machine.RecTurnCompleted), Transition: a.record(machine.RecTransition), Ended: a.record(machine.RecEnded),
		State: a.State.Current, Status: a.status(), Seq: a.seq(), Turn: a.turn(), Duplicate: a.Duplicate,
	}, nil
}

// FailTurn implements pawl.v1.RunService.
func (s *runService) FailTurn(ctx context.Context, in *pawlv1.FailTurnRequest) (*pawlv1.FailTurnResponse, error) {
	req := failFromProto(ctx, in)
	got, err := s.engine.FailTurn(ctx, req)
	a, err := s.answer(ctx, req.Call, got, err)
	if err != nil {
		return nil, err
	}
	return &pawlv1.FailTurnResponse{
		Record: a.record(machine.RecTurnFailed), Ended: a.record(machine.RecEnded),
		Status: a.status(), Seq: a.seq(), Turn: a.turn(), Duplicate: a.Duplicate,
	}, nil
}

// WriteOutput implements pawl.v1.RunService.
func (s *runService) WriteOutput(ctx context.Context, in *pawlv1.WriteOutputRequest) (*pawlv1.WriteOutputResponse, error) {
	req, err := outputFromProto(ctx, in)
	if err != nil {
		return nil, err
	}
	got, err := s.engine.WriteOutput(ctx, req)
	a, err := s.answer(ctx, req.Call, got, err)
	if err != nil {
		return nil, err
	}
	return &pawlv1.WriteOutputResponse{Record: a.record(machine.RecOutputWritten), Seq: a.seq(), Duplicate: a.Duplicate}, nil
}

// SuspendTurn implements pawl.v1.RunService.
func (s *runService) SuspendTurn(ctx context.Context, in *pawlv1.SuspendTurnRequest) (*pawlv1.SuspendTurnResponse, error) {
	req := turnCallOf(ctx, in)
	got, err := s.engine.SuspendTurn(ctx, req)
	a, err := s.answer(ctx, req.Call, got, err)
	if err != nil {
		return nil, err
	}
	return &pawlv1.SuspendTurnResponse{
		Record: a.record(machine.RecTurnSuspended), Status: a.status(), Seq: a.seq(), Duplicate: a.Duplicate,
	}, nil
}

// RequestStep implements pawl.v1.RunService.
func (s *runService) RequestStep(ctx context.Context, in *pawlv1.RequestStepRequest) (*pawlv1.RequestStepResponse, error) {
	req, err := stepsFromProto(ctx, in)
	if err != nil {
		return nil, err
	}
	got, err := s.engine.RequestSteps(ctx, req)
	a, err := s.answer(ctx, req.Call, got, err)
	if err != nil {
		return nil, err
	}
	out := &pawlv1.RequestStepResponse{
		Ended: a.record(machine.RecEnded), Status: a.status(), Seq: a.seq(), Duplicate: a.Duplicate,
	}
	for i := range a.Steps {
		out.Outcomes = append(out.Outcomes, outcomeToProto(a.State, &a.Steps[i], &req.Requests[i]))
	}
	return out, nil
}

// ResolveStep implements pawl.v1.RunService.
func (s *runService) ResolveStep(ctx context.Context, in *pawlv1.ResolveStepRequest) (*pawlv1.ResolveStepResponse, error) {
	req, err := resolveFromProto(ctx, in)
	if err != nil {
		return nil, err
	}
	got, err := s.engine.ResolveStep(ctx, req)
	a, err := s.answer(ctx, req.Call, got, err)
	if err != nil {
		return nil, err
	}
	s.tally.ignored(ctx, a.Disposition)
	return &pawlv1.ResolveStepResponse{
		Disposition: pawlv1.Disposition(a.Disposition), Record: a.record(machine.RecStepResolved),
		Ended: a.record(machine.RecEnded), Status: a.status(), Seq: a.seq(),
	}, nil
}
