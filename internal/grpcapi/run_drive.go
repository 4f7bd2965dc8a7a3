package grpcapi

import (
	"context"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// StartRun implements pawl.v1.RunService.
func (s *runService) StartRun(ctx context.Context, in *pawlv1.StartRunRequest) (*pawlv1.StartRunResponse, error) {
	req, err := startFromProto(ctx, in)
	if err != nil {
		return nil, err
	}
	got, err := s.engine.StartRun(ctx, req)
	a, err := s.answer(ctx, req.Call, got, err)
	if err != nil {
		return nil, err
	}
	run, err := s.run(ctx, req.Namespace, got.State)
	if err != nil {
		return nil, err
	}
	first := a.record(machine.RecTransition)
	if first == nil {
		first = a.record(machine.RecEnded)
	}
	return &pawlv1.StartRunResponse{Run: run, Record: first, Turn: a.turn(), Duplicate: a.Duplicate}, nil
}

// EmitEvent implements pawl.v1.RunService.
func (s *runService) EmitEvent(ctx context.Context, in *pawlv1.EmitEventRequest) (*pawlv1.EmitEventResponse, error) {
	req := emitFromProto(ctx, in)
	got, err := s.engine.EmitEvent(ctx, req)
	a, err := s.answer(ctx, req.Call, got, s.withWinner(ctx, req.RunRef, err))
	if err != nil {
		return nil, err
	}
	return &pawlv1.EmitEventResponse{
		Transition: a.record(machine.RecTransition), Ended: a.record(machine.RecEnded), State: a.State.Current,
		Status: a.status(), Seq: a.seq(), Turn: a.turn(), Duplicate: a.Duplicate,
	}, nil
}

// SendInput implements pawl.v1.RunService.
func (s *runService) SendInput(ctx context.Context, in *pawlv1.SendInputRequest) (*pawlv1.SendInputResponse, error) {
	req, err := inputFromProto(ctx, in)
	if err != nil {
		return nil, err
	}
	got, err := s.engine.SendInput(ctx, req)
	a, err := s.answer(ctx, req.Call, got, s.withWinner(ctx, req.RunRef, err))
	if err != nil {
		return nil, err
	}
	record := a.record(machine.RecInputReceived)
	return &pawlv1.SendInputResponse{
		Record: record, Queued: record.GetInputReceived().GetQueued(),
		Status: a.status(), Seq: a.seq(), Turn: a.turn(), Duplicate: a.Duplicate,
	}, nil
}

// SetArtifacts implements pawl.v1.RunService.
func (s *runService) SetArtifacts(ctx context.Context, in *pawlv1.SetArtifactsRequest) (*pawlv1.SetArtifactsResponse, error) {
	req := artifactsFromProto(ctx, in)
	got, err := s.engine.SetArtifacts(ctx, req)
	a, err := s.answer(ctx, req.Call, got, s.withWinner(ctx, req.RunRef, err))
	if err != nil {
		return nil, err
	}
	return &pawlv1.SetArtifactsResponse{Record: a.record(machine.RecArtifactsSet), Seq: a.seq(), Duplicate: a.Duplicate}, nil
}

// PauseRun implements pawl.v1.RunService.
func (s *runService) PauseRun(ctx context.Context, in *pawlv1.PauseRunRequest) (*pawlv1.PauseRunResponse, error) {
	req := controlFromProto(ctx, in)
	got, err := s.engine.PauseRun(ctx, req)
	a, err := s.answer(ctx, req.Call, got, err)
	if err != nil {
		return nil, err
	}
	return &pawlv1.PauseRunResponse{
		Record: a.record(machine.RecPaused), Status: a.status(), Seq: a.seq(), Duplicate: a.Duplicate,
	}, nil
}

// ResumeRun implements pawl.v1.RunService.
func (s *runService) ResumeRun(ctx context.Context, in *pawlv1.ResumeRunRequest) (*pawlv1.ResumeRunResponse, error) {
	req := controlFromProto(ctx, in)
	got, err := s.engine.ResumeRun(ctx, req)
	a, err := s.answer(ctx, req.Call, got, err)
	if err != nil {
		return nil, err
	}
	return &pawlv1.ResumeRunResponse{
		Record: a.record(machine.RecResumed), Status: a.status(), Seq: a.seq(), Duplicate: a.Duplicate,
	}, nil
}

// CancelRun implements pawl.v1.RunService.
func (s *runService) CancelRun(ctx context.Context, in *pawlv1.CancelRunRequest) (*pawlv1.CancelRunResponse, error) {
	req := controlFromProto(ctx, in)
	req.Cascade = true
	got, err := s.engine.CancelRun(ctx, req)
	a, err := s.answer(ctx, req.Call, got, err)
	if err != nil {
		return nil, err
	}
	return &pawlv1.CancelRunResponse{
		Ended: a.record(machine.RecEnded), Status: a.status(), Seq: a.seq(), Duplicate: a.Duplicate,
	}, nil
}
