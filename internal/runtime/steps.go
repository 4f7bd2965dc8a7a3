package runtime

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// withSteps completes an answer with the recorded answers of its steps, and
// with the error that the machine returned although it committed.
func (t *transit) withSteps(ctx context.Context, answer Answer, result machine.Result) (Answer, error) {
	key := RunKey{Namespace: t.c.key.Namespace, ID: answer.RunID}
	left := int64(history.MaxStepBytes)
	for _, outcome := range result.Steps {
		step := StepAnswer{StepOutcome: outcome}
		if err := t.e.readWithin(ctx, key, &step, &left); err != nil {
			return Answer{}, err
		}
		answer.Steps = append(answer.Steps, step)
	}
	return answer, result.Refused
}

// count adds the step requests that were taken under the request's token; the
// default keys of the next ones go on from there. What is done after a turn was
// released counts from 1, as a repeated execution, even under the same token.
func (t *transit) count() {
	if t.asked.Word == "" {
		return
	}
	switch cmd := t.input.Command.(type) {
	case machine.RequestSteps:
		if t.c.holder != nil {
			t.c.holder.Counted(t.asked.Word, len(cmd.Requests))
			return
		}
		t.e.owner.counted(t.c.key, t.asked.Word, t.asked.Requests+len(cmd.Requests))
	case machine.SuspendTurn:
		if t.c.holder == nil {
			t.e.owner.counted(t.c.key, t.asked.Word, 0)
		}
	}
}

// readWithin reads the recorded answer of a step as long as something is left of what an answer carries.
func (e *Engine) readWithin(ctx context.Context, key RunKey, step *StepAnswer, left *int64) error {
	if *left >= 0 {
		var err error
		if step.Result, step.Error, err = e.past.Answer(ctx, key, step.Step, step.AnswerSeq); err != nil {
			return err
		}
		*left -= int64(len(step.Result)) + history.FaultBytes(step.Error)
	}
	if *left < 0 && step.AnswerSeq != 0 {
		step.Result, step.Error, step.Omitted = nil, machine.Fault{}, true
	}
	return nil
}
