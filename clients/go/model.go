package pawl

import (
	"context"
	"errors"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// ErrSuspended is what a [TurnFunc] returns that waits for steps and would rather not hold
// its turn meanwhile: the turn is assigned again, as it is, once they are answered.
var ErrSuspended = errors.New("the turn waits for its steps")

// RequestModel asks for a round of the turn, from 1.
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

// setLastAnswer keeps which answer the turn had last.
func (t *Turn) setLastAnswer(step *pawlv1.Step) {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.answered = 0
	if step.GetStatus() == pawlv1.StepStatus_STEP_STATUS_OK {
		t.answered = step.GetStep()
	}
}

// AnswerModel tells what came of a call of a model; run, turn's token and so on are the
// turn's.
func (t *Turn) AnswerModel(ctx context.Context, answer *pawlv1.AnswerModelRequest) (*pawlv1.AnswerModelResponse, error) {
	r, err := t.ask(ctx, func(l *pawlv1.TurnLease) *pawlv1.WorkRequest {
		// A message of its own: the one before may still be on its way out of a session that
		// is over.
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

// UpdateModelCall keeps the provider's id of a response that is being made, for an execution that
// comes after this one.
func (t *Turn) UpdateModelCall(ctx context.Context, step uint32, attempt int32, responseID string) (*pawlv1.UpdateModelCallResponse, error) {
	r, err := t.ask(ctx, func(l *pawlv1.TurnLease) *pawlv1.WorkRequest {
		return &pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_UpdateModelCall{UpdateModelCall: &pawlv1.UpdateModelCallRequest{
			RunId: l.GetRunId(), TurnToken: l.GetToken(), Step: step, Attempt: attempt, ResponseId: responseID,
		}}}
	})
	return r.GetUpdateModelCall(), err
}

// RequestCall asks for the step of a model's tool call and waits for nothing; see
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

// Answered waits for the answer of a step.
func (t *Turn) Answered(ctx context.Context, step uint32) (*pawlv1.Step, error) {
	return t.answer(ctx, step)
}

// ReasonOf is the sidecar's reason where it refused a request, HANDLER_ERROR for any other error:
// what a turn that fails with the error is failed with.
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
