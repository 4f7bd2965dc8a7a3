package pawl

import (
	"context"
	"errors"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// ErrSuspended is returned by a [TurnFunc] in order to release its turn while steps are pending. The
// sidecar assigns the turn again when the steps are answered. The new assignment counts as the same
// attempt.
var ErrSuspended = errors.New("the turn waits for its steps")

// RequestModel starts a model call of the turn. round counts from 1. bound is the maximum that the call
// may consume. The call is idempotent by its round.
func (t *Turn) RequestModel(ctx context.Context, round int32, asked *pawlv1.ModelRequest, bound *pawlv1.Usage) (*pawlv1.RequestModelResponse, error) {
	r, err := t.ask(ctx, func(l *pawlv1.TurnLease) *pawlv1.WorkRequest {
		return &pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_RequestModel{RequestModel: &pawlv1.RequestModelRequest{
			RunId: l.GetRunId(), TurnSeq: l.GetTurnSeq(), Attempt: l.GetAttempt(), TurnToken: l.GetToken(),
			Round: round, Request: asked, Bound: bound, IncludeRequired: true,
		}}}
	})
	t.setLastAnswer(r.GetRequestModel().GetStep())
	return r.GetRequestModel(), err
}

// setLastAnswer stores the MODEL step whose answer the turn received last. If the step is not answered,
// or its call failed, it stores 0.
func (t *Turn) setLastAnswer(step *pawlv1.Step) {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.answered = 0
	if step.GetStatus() == pawlv1.StepStatus_STEP_STATUS_OK {
		t.answered = step.GetStep()
	}
}

// AnswerModel reports the outcome of a model call. The fields of the run and of the token are set
// automatically.
func (t *Turn) AnswerModel(ctx context.Context, answer *pawlv1.AnswerModelRequest) (*pawlv1.AnswerModelResponse, error) {
	r, err := t.ask(ctx, func(l *pawlv1.TurnLease) *pawlv1.WorkRequest {
		// Each attempt builds a new message, because a session that has ended may still be sending the
		// previous one.
		return &pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_AnswerModel{AnswerModel: &pawlv1.AnswerModelRequest{
			RunId: l.GetRunId(), TurnToken: l.GetToken(), Step: answer.GetStep(), Attempt: answer.GetAttempt(),
			Outcome: answer.GetOutcome(), Usage: answer.GetUsage(),
		}}}
	})
	if got := r.GetAnswerModel(); answer.GetAnswer() != nil && got.GetDisposition() == pawlv1.Disposition_DISPOSITION_ACCEPTED {
		t.setLastAnswer(&pawlv1.Step{Step: answer.GetStep(), Status: pawlv1.StepStatus_STEP_STATUS_OK})
	}
	return r.GetAnswerModel(), err
}

// UpdateModelCall stores the provider's id of a response in progress. With it, a later execution of the
// turn can fetch the response.
func (t *Turn) UpdateModelCall(ctx context.Context, step uint32, attempt int32, responseID string) (*pawlv1.UpdateModelCallResponse, error) {
	r, err := t.ask(ctx, func(l *pawlv1.TurnLease) *pawlv1.WorkRequest {
		return &pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_UpdateModelCall{UpdateModelCall: &pawlv1.UpdateModelCallRequest{
			RunId: l.GetRunId(), TurnToken: l.GetToken(), Step: step, Attempt: attempt, ResponseId: responseID,
		}}}
	})
	return r.GetUpdateModelCall(), err
}

// RequestCall starts the step of a model's tool call. It does not wait for the answer, see
// [Turn.Answered].
func (t *Turn) RequestCall(ctx context.Context, call *pawlv1.ToolCallRef, tool, payload string) (*pawlv1.StepOutcome, error) {
	r, err := t.ask(ctx, func(l *pawlv1.TurnLease) *pawlv1.WorkRequest {
		return &pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_RequestStep{RequestStep: &pawlv1.RequestStepRequest{
			RunId: l.GetRunId(), TurnSeq: l.GetTurnSeq(), Attempt: l.GetAttempt(), TurnToken: l.GetToken(),
			Requests: []*pawlv1.StepRequest{{Call: call, Tool: tool, PayloadJson: payload}},
		}}}
	})
	if err != nil {
		return nil, err
	}
	t.w.mu.Lock()
	t.requests++
	t.w.mu.Unlock()
	return r.GetRequestStep().GetOutcomes()[0], nil
}

// Answered waits until a step is answered and returns it. It returns the error of ctx when ctx ends.
func (t *Turn) Answered(ctx context.Context, step uint32) (*pawlv1.Step, error) {
	return t.answer(ctx, step)
}

// ReasonOf returns the sidecar's reason if err is that of a refused request. For any other error, also
// for a [*Failure], it returns HANDLER_ERROR. A turn fails with this code, except that a [*Failure] has
// its own code.
func ReasonOf(err error) string { return reasonOf(err) }

// suspend releases the turn until its steps are answered.
func (t *Turn) suspend(ctx context.Context) error {
	_, err := t.ask(ctx, func(l *pawlv1.TurnLease) *pawlv1.WorkRequest {
		return &pawlv1.WorkRequest{Credits: t.credit(), Item: &pawlv1.WorkRequest_SuspendTurn{SuspendTurn: &pawlv1.SuspendTurnRequest{
			RunId: l.GetRunId(), TurnSeq: l.GetTurnSeq(), Attempt: l.GetAttempt(), TurnToken: l.GetToken(),
		}}}
	})
	return err
}
