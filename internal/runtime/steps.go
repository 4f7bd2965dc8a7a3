package runtime

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// withSteps completes an answer with the recorded answers of its steps, and
// with the error that the machine returned although it committed.
func (t *transit) withSteps(ctx context.Context, answer Answer, result machine.Result) (Answer, error) {
	key := RunKey{Namespace: t.c.key.Namespace, ID: answer.RunID}
	left := int64(MaxStepBytes)
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
		t.e.slots.counted(t.c.key, t.asked.Word, t.asked.Requests+len(cmd.Requests))
	case machine.SuspendTurn:
		if t.c.holder == nil {
			t.e.slots.counted(t.c.key, t.asked.Word, 0)
		}
	}
}

// MaxStepBytes bounds the payloads and answers of steps that one answer carries: those
// of a turn, newest first, or those that a request of steps repeats. More than one
// step can hold; the rest is told without, and can be asked for by its key.
const MaxStepBytes = 16 << 20

// readWithin is readAnswer as long as something is left of what an answer carries.
func (e *Engine) readWithin(ctx context.Context, key RunKey, step *StepAnswer, left *int64) error {
	if *left >= 0 {
		if err := e.readAnswer(ctx, key, step); err != nil {
			return err
		}
		*left -= int64(len(step.Result)) + faultBytes(step.Error)
	}
	if *left < 0 && step.AnswerSeq != 0 {
		step.Result, step.Error, step.Omitted = nil, machine.Fault{}, true
	}
	return nil
}

func faultBytes(f machine.Fault) int64 { return int64(len(f.Code) + len(f.Message) + len(f.Trace)) }

// readAnswer reads the recorded answer of a step, if there is one.
func (e *Engine) readAnswer(ctx context.Context, key RunKey, step *StepAnswer) error {
	if step.AnswerSeq == 0 {
		return nil
	}
	body, err := e.past.Body(ctx, key, step.AnswerSeq)
	if err != nil {
		return err
	}
	switch b := body.(type) {
	case *machine.StepResolved:
		step.Result, step.Error = b.Result, b.Error
	case *machine.Origin:
		taken := takenStep(b, step.Step)
		step.Result, step.Error = taken.Result, taken.Error
	}
	return nil
}

// takenStep finds a step that a fork took over.
func takenStep(origin *machine.Origin, step uint32) machine.TakenStep {
	for i := range origin.Steps {
		if origin.Steps[i].Step == step {
			return origin.Steps[i]
		}
	}
	return machine.TakenStep{}
}

// StepView is one step of the visit as the executor of its turn sees it.
type StepView struct {
	machine.ToolStep
	// Payload is the request's compact JSON.
	Payload []byte
	// Result (StepStatusOK) and Error (StepStatusError) are what was recorded.
	Result []byte
	Error  machine.Fault
	// Omitted: payload, result and error are left out, see [MaxStepBytes].
	Omitted bool
}

// Bytes is what the view's bodies hold.
func (v *StepView) Bytes() int64 {
	return int64(len(v.Payload)+len(v.Result)) + faultBytes(v.Error)
}

// stepViews reads requests and answers of steps.
func (e *Engine) stepViews(ctx context.Context, key RunKey, steps []machine.ToolStep) ([]StepView, error) {
	views := make([]StepView, len(steps))
	for i := range steps {
		view, err := e.RenderStep(ctx, key, &steps[i])
		if err != nil {
			return nil, err
		}
		views[i] = view
	}
	return views, nil
}

// visitViews reads those of a visit, the bodies of the newest [MaxStepBytes] only.
func (e *Engine) visitViews(ctx context.Context, key RunKey, steps []machine.ToolStep) ([]StepView, error) {
	views := make([]StepView, len(steps))
	left := int64(MaxStepBytes)
	for i := len(steps) - 1; i >= 0; i-- {
		if left >= 0 {
			view, err := e.RenderStep(ctx, key, &steps[i])
			if err != nil {
				return nil, err
			}
			views[i], left = view, left-view.Bytes()
		}
		if left < 0 {
			views[i] = StepView{ToolStep: steps[i], Omitted: true}
		}
	}
	return views, nil
}

// RenderStep reads one step's request and answer.
func (e *Engine) RenderStep(ctx context.Context, key RunKey, step *machine.ToolStep) (StepView, error) {
	view := StepView{ToolStep: *step}
	body, err := e.past.Body(ctx, key, step.RequestSeq)
	if err != nil {
		return view, err
	}
	switch b := body.(type) {
	case *machine.StepRequested:
		view.Payload = b.Payload
	case *machine.Origin:
		view.Payload = takenStep(b, step.Step).Payload
	}
	answer := StepAnswer{StepOutcome: machine.StepOutcome{Step: step.Step, AnswerSeq: step.AnswerSeq}}
	err = e.readAnswer(ctx, key, &answer)
	view.Result, view.Error = answer.Result, answer.Error
	return view, err
}
