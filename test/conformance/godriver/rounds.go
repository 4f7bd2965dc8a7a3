package godriver

import (
	"context"
	"fmt"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// round is one call of a model in a turn, and the tool calls of its answer.
type round struct {
	Ask   *modelRequest `json:"ask"`
	Bound *usage        `json:"bound"`
	// Note is the id that the provider gave to the response.
	Note string `json:"note"`
	Hold string `json:"hold"`
	// Stream are the pieces in which the answer of the model is streamed. The ledger records the call of the model.
	Stream []string `json:"stream"`
	// Outcomes has one entry an attempt, of which the last is repeated.
	Outcomes []attemptOutcome `json:"told"`
	// Calls are those of the answer, in order, made at the same time.
	Calls []stepCall `json:"calls"`
}

type attemptOutcome struct {
	modelOutcome
	Usage *usage `json:"usage"`
}

// rounds makes the rounds of a turn, from 1.
func (p *player) rounds(ctx context.Context, h workerHost, rounds []round) error {
	for i, r := range rounds {
		step, err := p.round(ctx, h, int32(i)+1, r)
		if err != nil {
			return err
		}
		if len(r.Calls) == 0 {
			continue
		}
		if err := p.pass(ctx, "call"); err != nil {
			return err
		}
		outcomes, err := h.calls(ctx, step, r.Calls)
		if err != nil {
			return err
		}
		for i, o := range outcomes {
			p.out.event(map[string]any{
				"kind": "called", "index": i, "tool": r.Calls[i].Tool, "denial": o.GetDenial().GetCode(), "replayed": o.GetReplayed(),
				"step": o.GetStep().GetStep(), "result": parsed(o.GetStep().GetResultJson()), "error": o.GetStep().GetError().GetCode(),
			})
		}
	}
	return nil
}

// round asks for a call, makes it if it is open, and gives its step.
func (p *player) round(ctx context.Context, h workerHost, n int32, r round) (uint32, error) {
	got, err := h.requestModel(ctx, n, r)
	if err != nil {
		return 0, err
	}
	step := got.GetStep()
	p.out.event(map[string]any{
		"kind": "asked", "round": n, "step": step.GetStep(), "attempt": step.GetAttempt(), "replayed": got.GetReplayed(),
		"status": word(step.GetStatus().Descriptor(), step.GetStatus().Number()), "denial": got.GetDenial().GetCode(),
		"response_id": step.GetModel().GetResponseId(), "text": textOf(step.GetModel().GetAnswer().GetParts()),
	})
	switch {
	case got.GetDenial() != nil:
		return 0, &pawl.Failure{Code: got.GetDenial().GetCode()}
	case step.GetStatus() == pawlv1.StepStatus_STEP_STATUS_ERROR:
		return 0, &pawl.Failure{Code: step.GetError().GetCode()}
	case step.GetStatus() == pawlv1.StepStatus_STEP_STATUS_PENDING:
		if err := p.stream(ctx, h, n, r.Stream); err != nil {
			return 0, err
		}
		return step.GetStep(), p.answer(ctx, h, step, r)
	}
	return step.GetStep(), nil
}

// stream writes down that the model is asked, and shows its answer piece by piece.
func (p *player) stream(ctx context.Context, h workerHost, n int32, pieces []string) error {
	if len(pieces) == 0 {
		return nil
	}
	if err := p.enter(map[string]any{"tool": "model", "key": fmt.Sprintf("%s/%d", h.turn.Assignment.GetLease().GetRunId(), n)}); err != nil {
		return err
	}
	for _, piece := range pieces {
		if err := h.partial(ctx, piece); err != nil {
			return err
		}
		if err := p.pass(ctx, fmt.Sprintf("stream/%d", n)); err != nil {
			return err
		}
	}
	return nil
}

// answer tells what the model said, attempt by attempt.
func (p *player) answer(ctx context.Context, h workerHost, step *pawlv1.Step, r round) error {
	if r.Note != "" {
		if err := h.updateModelCall(ctx, step.GetStep(), step.GetAttempt(), r.Note); err != nil {
			return err
		}
	}
	if err := p.hold(ctx, r.Hold); err != nil {
		return err
	}
	attempt := step.GetAttempt()
	for n := 0; ; n++ {
		outcome := r.Outcomes[min(n, len(r.Outcomes)-1)]
		got, err := h.answerModel(ctx, outcome.fillRequest(&pawlv1.AnswerModelRequest{Step: step.GetStep(), Attempt: attempt, Usage: outcome.Usage.wire()}))
		if err != nil {
			return err
		}
		p.out.event(map[string]any{
			"kind": "told", "step": step.GetStep(), "attempt": attempt, "next": got.GetNext(), "wait": got.GetWait().AsDuration().Seconds(),
			"disposition": word(got.GetDisposition().Descriptor(), got.GetDisposition().Number()),
		})
		if outcome.Failure == nil {
			return nil
		}
		if attempt = got.GetNext(); attempt == 0 {
			return &pawl.Failure{Code: outcome.Failure.Code}
		}
		if err := pause(ctx, got.GetWait().AsDuration()); err != nil {
			return err
		}
	}
}

// pause waits as long as the pack wants before the next attempt.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h workerHost) requestModel(ctx context.Context, n int32, r round) (*pawlv1.RequestModelResponse, error) {
	return h.turn.RequestModel(ctx, n, r.Ask.wire(), r.Bound.wire())
}

func (h workerHost) answerModel(ctx context.Context, answer *pawlv1.AnswerModelRequest) (*pawlv1.AnswerModelResponse, error) {
	return h.turn.AnswerModel(ctx, answer)
}

func (h workerHost) updateModelCall(ctx context.Context, step uint32, attempt int32, id string) error {
	_, err := h.turn.UpdateModelCall(ctx, step, attempt, id)
	return err
}

// calls makes those of a model's answer at the same time.
func (h workerHost) calls(ctx context.Context, model uint32, calls []stepCall) ([]*pawlv1.StepOutcome, error) {
	var outcomes []*pawlv1.StepOutcome
	for i, c := range calls {
		outcome, err := h.turn.RequestCall(ctx, &pawlv1.ToolCallRef{ModelStep: model, Index: int32(i)}, c.Tool, string(c.Payload))
		if err != nil {
			return nil, err
		}
		outcomes = append(outcomes, outcome)
	}
	for _, o := range outcomes {
		if o.GetStep().GetStatus() != pawlv1.StepStatus_STEP_STATUS_PENDING {
			continue
		}
		answered, err := h.turn.Answered(ctx, o.GetStep().GetStep())
		if err != nil {
			return nil, err
		}
		o.Step = answered
	}
	return outcomes, nil
}
