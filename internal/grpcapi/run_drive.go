package grpcapi

import (
	"context"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// StartRun implements pawl.v1.RunService.
func (s *runService) StartRun(ctx context.Context, in *pawlv1.StartRunRequest) (*pawlv1.StartRunResponse, error) {
	return handleUnary(ctx, s, in, traced(ctx, convert.StartFromProto), s.engine.StartRun, func(a *convert.Answer) *pawlv1.StartRunResponse {
		first := a.Record(machine.RecTransition)
		if first == nil {
			first = a.Record(machine.RecEnded)
		}
		return &pawlv1.StartRunResponse{
			Run: a.Run(callOf(ctx, in.GetNamespace()).Namespace), Record: first, Turn: a.TurnRef(), Duplicate: a.Duplicate,
		}
	})
}

// EmitEvent implements pawl.v1.RunService.
func (s *runService) EmitEvent(ctx context.Context, in *pawlv1.EmitEventRequest) (*pawlv1.EmitEventResponse, error) {
	return handleUnary(ctx, s, in, convert.EmitFromProto, s.engine.EmitEvent, func(a *convert.Answer) *pawlv1.EmitEventResponse {
		return &pawlv1.EmitEventResponse{
			Transition: a.Record(machine.RecTransition), Ended: a.Record(machine.RecEnded), State: a.State.Current,
			Status: a.Status(), Seq: a.Seq(), Turn: a.TurnRef(), Duplicate: a.Duplicate,
		}
	})
}

// SendInput implements pawl.v1.RunService.
func (s *runService) SendInput(ctx context.Context, in *pawlv1.SendInputRequest) (*pawlv1.SendInputResponse, error) {
	return handleUnary(ctx, s, in, convert.InputFromProto, s.engine.SendInput, func(a *convert.Answer) *pawlv1.SendInputResponse {
		record := a.Record(machine.RecInputReceived)
		return &pawlv1.SendInputResponse{
			Record: record, Queued: record.GetInputReceived().GetQueued(),
			Status: a.Status(), Seq: a.Seq(), Turn: a.TurnRef(), Duplicate: a.Duplicate,
		}
	})
}

// SetArtifacts implements pawl.v1.RunService.
func (s *runService) SetArtifacts(ctx context.Context, in *pawlv1.SetArtifactsRequest) (*pawlv1.SetArtifactsResponse, error) {
	return handleUnary(ctx, s, in, convert.ArtifactsFromProto, s.engine.SetArtifacts, func(a *convert.Answer) *pawlv1.SetArtifactsResponse {
		return &pawlv1.SetArtifactsResponse{Record: a.Record(machine.RecArtifactsSet), Seq: a.Seq(), Duplicate: a.Duplicate}
	})
}

// PauseRun implements pawl.v1.RunService.
func (s *runService) PauseRun(ctx context.Context, in *pawlv1.PauseRunRequest) (*pawlv1.PauseRunResponse, error) {
	return handleUnary(ctx, s, in, convert.ControlFromProto, s.engine.PauseRun, func(a *convert.Answer) *pawlv1.PauseRunResponse {
		return &pawlv1.PauseRunResponse{Record: a.Record(machine.RecPaused), Status: a.Status(), Seq: a.Seq(), Duplicate: a.Duplicate}
	})
}

// ResumeRun implements pawl.v1.RunService.
func (s *runService) ResumeRun(ctx context.Context, in *pawlv1.ResumeRunRequest) (*pawlv1.ResumeRunResponse, error) {
	return handleUnary(ctx, s, in, convert.ControlFromProto, s.engine.ResumeRun, func(a *convert.Answer) *pawlv1.ResumeRunResponse {
		return &pawlv1.ResumeRunResponse{Record: a.Record(machine.RecResumed), Status: a.Status(), Seq: a.Seq(), Duplicate: a.Duplicate}
	})
}

// CancelRun implements pawl.v1.RunService.
func (s *runService) CancelRun(ctx context.Context, in *pawlv1.CancelRunRequest) (*pawlv1.CancelRunResponse, error) {
	return handleUnary(ctx, s, in, convert.CancelFromProto, s.engine.CancelRun, func(a *convert.Answer) *pawlv1.CancelRunResponse {
		return &pawlv1.CancelRunResponse{Ended: a.Record(machine.RecEnded), Status: a.Status(), Seq: a.Seq(), Duplicate: a.Duplicate}
	})
}
