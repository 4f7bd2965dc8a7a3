package script

import (
	"context"
	"fmt"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// turn answers the open turn: first its steps, one after another, then the turn itself.
func (p *execution) turn(ctx context.Context, a *Answer) (ended bool, err error) {
	artifacts, err := p.artifacts(a)
	if err != nil {
		return false, err
	}
	turn, err := p.open(ctx)
	if err != nil {
		return false, err
	}
	for i := range a.Steps {
		at := fmt.Sprintf("%s.steps[%d]", p.at, i)
		for range max(1, a.Steps[i].Repeat) {
			if ended, err = p.step(ctx, turn, at, &a.Steps[i]); err != nil || ended {
				return ended, err
			}
		}
	}
	if a.Fail != nil {
		return p.fail(ctx, turn, a)
	}
	output, err := Parts(a.Output)
	if err != nil {
		return false, &Error{[]string{p.at + ".output: " + err.Error()}}
	}
	got, err := p.Runs.CompleteTurn(ctx, &pawlv1.CompleteTurnRequest{
		RunId: p.run, TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
		Output: output, Event: a.Event, Artifacts: artifacts, Usage: a.Usage.proto(),
	})
	return terminal(got.GetStatus()), err
}

// open returns the open turn. If the turn waits for a pause between two attempts, open skips this time.
func (p *execution) open(ctx context.Context) (*pawlv1.TurnRef, error) {
	got, err := p.Runs.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: p.run})
	if err != nil || got.GetNotBefore() == nil {
		return got.GetTurn(), err
	}
	if wait := got.GetNotBefore().AsTime().Sub(p.Clock.Now()); wait > 0 {
		p.Clock.Advance(wait)
	}
	if err := p.next(ctx, got.GetSeq()); err != nil {
		return nil, err
	}
	got, err = p.Runs.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: p.run})
	return got.GetTurn(), err
}

// step requests one tool call and resolves it.
func (p *execution) step(ctx context.Context, turn *pawlv1.TurnRef, at string, s *Step) (ended bool, err error) {
	payload := "{}"
	if s.Payload != nil {
		if payload, err = encode(s.Payload); err != nil {
			return false, &Error{[]string{at + ".payload: " + err.Error()}}
		}
	}
	got, err := p.Runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
		RunId: p.run, TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
		Requests: []*pawlv1.StepRequest{{Key: s.Key, Tool: s.Tool, PayloadJson: payload, Reframe: s.Reframe, ByCaller: true}},
	})
	if err != nil {
		return false, err
	}
	if terminal(got.GetStatus()) {
		p.result.warn("%s: the run ended with this call; the rest of %s was not used", at, p.at)
		return true, nil
	}
	outcome := got.GetOutcomes()[0]
	switch {
	case outcome.GetDenial() != nil:
		p.result.warn("%s: the call was refused: %s: %s", at, outcome.GetDenial().GetCode(), outcome.GetDenial().GetMessage())
		return false, nil
	case outcome.GetStep().GetStatus() != pawlv1.StepStatus_STEP_STATUS_PENDING:
		p.result.warn("%s: the call was answered before; this answer was not used", at)
		return false, nil
	case !MayExecute(outcome.GetStep()):
		return p.skipDecision(ctx, at, outcome.GetStep())
	}
	return p.resolve(ctx, turn, at, outcome.GetStep(), s)
}

// MayExecute reports whether the script may execute a tool call. The call must be pending. It must belong to the caller, or
// to an agent whose part the script plays. It must not wait for a person's decision. No reconcile call, which finds
// out whether an attempt had an effect, may be running for it.
func MayExecute(step *pawlv1.Step) bool {
	own := step.GetByCaller() || step.GetDelegation()
	return own && step.GetStatus() == pawlv1.StepStatus_STEP_STATUS_PENDING && !step.GetApproval().GetHeld() && step.GetInquiry() == 0
}

// skipDecision handles a tool call that waits for a person's decision. A script cannot decide, so skipDecision skips the
// time for the decision, and the call is never made.
func (p *execution) skipDecision(ctx context.Context, at string, step *pawlv1.Step) (ended bool, err error) {
	p.result.warn("%s: the call waits for a person to decide, and a script has no person: the time for that passed; this answer was not used", at)
	if left := step.GetDeadline().AsTime().Sub(p.Clock.Now()); step.GetDeadline() != nil && left > 0 {
		p.Clock.Advance(left)
	}
	if ended, err = p.settle(ctx); ended {
		p.result.warn("%s: the run ended with this call; the rest of %s was not used", at, p.at)
	}
	return ended, err
}

// resolve answers a step with the result or the error in the script. It reports whether the run has ended.
func (p *execution) resolve(ctx context.Context, turn *pawlv1.TurnRef, at string, step *pawlv1.Step, s *Step) (ended bool, err error) {
	req := &pawlv1.ResolveStepRequest{
		RunId: p.run, Step: step.GetStep(), Tool: s.Tool, Attempt: step.GetAttempt(), TurnToken: turn.GetToken(),
	}
	if s.Status == "error" {
		req.Answer = &pawlv1.ResolveStepRequest_Error{Error: s.fault()}
	} else {
		result, err := encode(s.Result)
		if err != nil {
			return false, &Error{[]string{at + ".result: " + err.Error()}}
		}
		req.Answer = &pawlv1.ResolveStepRequest_ResultJson{ResultJson: result}
	}
	got, err := p.Runs.ResolveStep(ctx, req)
	if err != nil {
		return false, err
	}
	if terminal(got.GetStatus()) {
		p.result.warn("%s: the run ended with this answer; the rest of %s was not used", at, p.at)
	}
	return terminal(got.GetStatus()), nil
}

func (p *execution) fail(ctx context.Context, turn *pawlv1.TurnRef, a *Answer) (ended bool, err error) {
	got, err := p.Runs.FailTurn(ctx, &pawlv1.FailTurnRequest{
		RunId: p.run, TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
		Error: a.Fail.fault(), Retryable: a.Fail.Retryable, Usage: a.Usage.proto(),
	})
	return terminal(got.GetStatus()), err
}
