package grpcapi

import (
	"cmp"
	"context"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// GetTurn implements pawl.v1.RunService.
func (s *runService) GetTurn(ctx context.Context, in *pawlv1.GetTurnRequest) (*pawlv1.GetTurnResponse, error) {
	ref := refOf(ctx, in)
	view, err := s.engine.GetTurn(ctx, ref)
	if err != nil {
		return nil, err
	}
	out, err := s.turnResponse(ctx, ref.Namespace, &view)
	if err != nil {
		return nil, err
	}
	return out, s.redactor.HideAnswer(ctx, ref.Call, view.Run, out)
}

// CompleteTurn implements pawl.v1.RunService.
func (s *runService) CompleteTurn(ctx context.Context, in *pawlv1.CompleteTurnRequest) (*pawlv1.CompleteTurnResponse, error) {
	return handleUnary(ctx, s, in, convert.CompleteFromProto, s.engine.CompleteTurn, func(a *convert.Answer) *pawlv1.CompleteTurnResponse {
		return &pawlv1.CompleteTurnResponse{
			Record: a.Record(machine.RecTurnCompleted), Transition: a.Record(machine.RecTransition), Ended: a.Record(machine.RecEnded),
			State: a.State.Current, Status: a.Status(), Seq: a.Seq(), Turn: a.TurnRef(), Duplicate: a.Duplicate,
		}
	})
}

// FailTurn implements pawl.v1.RunService.
func (s *runService) FailTurn(ctx context.Context, in *pawlv1.FailTurnRequest) (*pawlv1.FailTurnResponse, error) {
	return handleUnary(ctx, s, in, convert.FailFromProto, s.engine.FailTurn, func(a *convert.Answer) *pawlv1.FailTurnResponse {
		return &pawlv1.FailTurnResponse{
			Record: a.Record(machine.RecTurnFailed), Ended: a.Record(machine.RecEnded),
			Status: a.Status(), Seq: a.Seq(), Turn: a.TurnRef(), Duplicate: a.Duplicate,
		}
	})
}

// WriteOutput implements pawl.v1.RunService.
func (s *runService) WriteOutput(ctx context.Context, in *pawlv1.WriteOutputRequest) (*pawlv1.WriteOutputResponse, error) {
	return handleUnary(ctx, s, in, convert.OutputFromProto, s.engine.WriteOutput, func(a *convert.Answer) *pawlv1.WriteOutputResponse {
		return &pawlv1.WriteOutputResponse{Record: a.Record(machine.RecOutputWritten), Seq: a.Seq(), Duplicate: a.Duplicate}
	})
}

// SuspendTurn implements pawl.v1.RunService.
func (s *runService) SuspendTurn(ctx context.Context, in *pawlv1.SuspendTurnRequest) (*pawlv1.SuspendTurnResponse, error) {
	return handleUnary(ctx, s, in, convert.SuspendFromProto, s.engine.SuspendTurn, func(a *convert.Answer) *pawlv1.SuspendTurnResponse {
		return &pawlv1.SuspendTurnResponse{
			Record: a.Record(machine.RecTurnSuspended), Status: a.Status(), Seq: a.Seq(), Duplicate: a.Duplicate,
		}
	})
}

// RequestStep implements pawl.v1.RunService.
func (s *runService) RequestStep(ctx context.Context, in *pawlv1.RequestStepRequest) (*pawlv1.RequestStepResponse, error) {
	var asked []machine.StepRequest
	do := func(ctx context.Context, req runtime.StepsRequest) (runtime.Answer, error) {
		asked = req.Requests
		for {
			answer, err := s.engine.RequestSteps(ctx, req)
			if err != nil {
				return answer, err
			}
			again, lapsed, err := s.work.RecheckApprovals(ctx, req, &answer)
			if err != nil || !lapsed {
				return answer, err
			}
			req = again
		}
	}
	return handleUnary(ctx, s, in, convert.StepsFromProto, do, func(a *convert.Answer) *pawlv1.RequestStepResponse {
		out := &pawlv1.RequestStepResponse{Ended: a.Record(machine.RecEnded), Status: a.Status(), Seq: a.Seq(), Duplicate: a.Duplicate}
		for i := range a.Steps {
			out.Outcomes = append(out.Outcomes, convert.OutcomeToProto(a.State, &a.Steps[i], &asked[i]))
		}
		return out
	})
}

// ResolveStep implements pawl.v1.RunService.
func (s *runService) ResolveStep(ctx context.Context, in *pawlv1.ResolveStepRequest) (*pawlv1.ResolveStepResponse, error) {
	return handleUnary(ctx, s, in, convert.ResolveFromProto, s.engine.ResolveStep, func(a *convert.Answer) *pawlv1.ResolveStepResponse {
		s.metrics.Ignored(ctx, a.Disposition)
		return &pawlv1.ResolveStepResponse{
			Disposition: pawlv1.Disposition(a.Disposition), Record: cmp.Or(a.Record(machine.RecStepResolved), a.Record(machine.RecStepOutcomeUnknown)),
			Ended: a.Record(machine.RecEnded), Status: a.Status(), Seq: a.Seq(),
		}
	})
}
