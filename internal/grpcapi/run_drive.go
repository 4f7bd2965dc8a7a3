package grpcapi

import (
	"cmp"
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// handleUnary executes a call that changes a run. The function ask converts the request, do is the method of the engine
// that executes it, and tell converts the answer to the response. handleUnary calls do only once, because its answer
// contains everything that the response needs.
func handleUnary[In interface{ GetNamespace() string }, Req, Out any](
	ctx context.Context, s *runService, in In,
	ask func(convert.Caller, In) (Req, error), do func(context.Context, Req) (runtime.Answer, error), tell func(*convert.Answer) Out,
) (out Out, err error) {
	req, err := ask(callerOf(ctx), in)
	if err != nil {
		return out, err
	}
	got, err := do(ctx, req)
	if err != nil {
		return out, s.withConflictRecord(ctx, in, err)
	}
	out = tell(&convert.Answer{Answer: got, Cursors: s.engine})
	return out, s.redactor.HideAnswer(ctx, callOf(ctx, in.GetNamespace()), got.State, out)
}

// traced returns a conversion that also adds the caller's trace context to the request. It is used for
// calls that start a run. The run then belongs to the caller's trace.
func traced[In, Req any](ctx context.Context, ask func(convert.Caller, In) (Req, error)) func(convert.Caller, In) (Req, error) {
	return func(c convert.Caller, in In) (Req, error) {
		c.Traceparent = auth.TraceOf(ctx)
		return ask(c, in)
	}
}

// callerOf returns the caller of a context.
func callerOf(ctx context.Context) convert.Caller {
	if w := workerOf(ctx); w != nil {
		return convert.Caller{Call: w.Call(), Bound: true}
	}
	return convert.Caller{Call: runtime.Call{Principal: auth.CallerOf(ctx).Principal}}
}

func callOf(ctx context.Context, namespace string) runtime.Call { return callerOf(ctx).In(namespace) }

func refOf(ctx context.Context, req convert.RunRequest) runtime.RunRef { return callerOf(ctx).Run(req) }

// maxConflictRecordBytes limits the record that is sent with an error, in a trailer.
const maxConflictRecordBytes = 2048

// sequencedRequest is a request that can name the record that the caller expects to be the newest one.
type sequencedRequest interface {
	convert.RunRequest
	GetExpectedSeq() uint64
}

// withConflictRecord adds the newest record to the error of a request whose expected_seq is out of date. The record is
// sent without its artifacts. With it, a caller that lost a race learns what happened. If the record cannot be read or
// redacted, or is too large, the error is returned unchanged.
func (s *runService) withConflictRecord(ctx context.Context, in any, err error) error {
	said, ok := in.(sequencedRequest)
	if !ok {
		return err
	}
	var refusal *machine.Error
	if !errors.As(err, &refusal) || refusal.Code != machine.CodeAborted || refusal.Seq == 0 {
		return err
	}
	row, readErr := s.views.ConflictRecord(ctx, refOf(ctx, said), refusal.Seq)
	if readErr != nil {
		return err
	}
	winner := convert.RecordToProto(&row, convert.DeclaredTypes(nil), nil)
	if transition := winner.GetTransition(); transition != nil {
		transition.ArtifactsWritten = nil
	}
	if s.redactor.HideSeen(ctx, refOf(ctx, said), winner) != nil || proto.Size(winner) > maxConflictRecordBytes {
		return err
	}
	return apierror.With(apierror.Refused(refusal), protoadapt.MessageV1Of(winner)).Err()
}

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
			// If an approval has expired, the steps are requested again.
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

// RequestModel implements pawl.v1.RunService.
func (s *runService) RequestModel(ctx context.Context, in *pawlv1.RequestModelRequest) (*pawlv1.RequestModelResponse, error) {
	return handleUnary(ctx, s, in, convert.RequestModelFromProto, s.admission.RequestModel, convert.ModelRequested)
}

// AnswerModel implements pawl.v1.RunService.
func (s *runService) AnswerModel(ctx context.Context, in *pawlv1.AnswerModelRequest) (*pawlv1.AnswerModelResponse, error) {
	var pause time.Duration
	out, err := handleUnary(ctx, s, in, convert.AnswerModelFromProto, func(ctx context.Context, req runtime.Request) (answer runtime.Answer, err error) {
		answer, pause, err = s.admission.AnswerModel(ctx, req, convert.ProviderLimitsFromProto(in.GetProviderLimits()))
		return answer, err
	}, convert.ModelAnswered)
	return convert.ModelPaused(out, pause), err
}

// UpdateModelCall implements pawl.v1.RunService.
func (s *runService) UpdateModelCall(ctx context.Context, in *pawlv1.UpdateModelCallRequest) (*pawlv1.UpdateModelCallResponse, error) {
	return handleUnary(ctx, s, in, convert.UpdateModelCallFromProto, s.engine.Apply, convert.ModelCallUpdated)
}

// GetModelStep implements pawl.v1.RunService.
func (s *runService) GetModelStep(ctx context.Context, in *pawlv1.GetModelStepRequest) (*pawlv1.GetModelStepResponse, error) {
	ref := refOf(ctx, in)
	view, err := s.views.ShowModel(ctx, ref, in.GetStep())
	if err != nil {
		return nil, err
	}
	out := convert.ModelShown(&view)
	return out, s.redactor.Hide(ctx, ref.Call, view.Run, out)
}
