package runtime

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// withSteps completes an answer with the recorded answers of its steps, and
// with the error that the machine returned although it committed.
func (t *transit) withSteps(ctx context.Context, answer Answer, result machine.Result) (Answer, error) {
	key := runKey{ns: t.c.key.ns, id: answer.RunID}
	for _, outcome := range result.Steps {
		step := StepAnswer{StepOutcome: outcome}
		if err := t.e.readAnswer(ctx, key, &step); err != nil {
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
	if t.asked.word == "" {
		return
	}
	switch cmd := t.input.Command.(type) {
	case machine.RequestSteps:
		if t.c.worker != nil {
			t.c.worker.counted(t.asked.word, len(cmd.Requests))
			return
		}
		t.e.slots.counted(t.c.key, t.asked.word, t.asked.requests+len(cmd.Requests))
	case machine.SuspendTurn:
		if t.c.worker == nil {
			t.e.slots.counted(t.c.key, t.asked.word, 0)
		}
	}
}

// readAnswer reads the recorded answer of a step, if there is one.
func (e *Engine) readAnswer(ctx context.Context, key runKey, step *StepAnswer) error {
	if step.AnswerSeq == 0 {
		return nil
	}
	body, err := e.record(ctx, key, step.AnswerSeq)
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

// record reads the body of one record.
func (e *Engine) record(ctx context.Context, key runKey, seq uint64) (machine.Body, error) {
	rec, err := e.recordAt(ctx, key, seq)
	return rec.Body, err
}

func (e *Engine) recordAt(ctx context.Context, key runKey, seq uint64) (machine.Record, error) {
	entry, err := e.store.Entry(ctx, key.ns, key.id, seq)
	if err != nil {
		return machine.Record{}, fmt.Errorf("runtime: read record %d of run %s: %w", seq, key.id, err)
	}
	if seq < entry.First || seq-entry.First >= uint64(len(entry.Records)) {
		return machine.Record{}, fmt.Errorf("runtime: run %s: the entry of record %d begins with %d: %w", key.id, seq, entry.First, machine.ErrNoRecord)
	}
	return entry.Records[seq-entry.First], nil
}

// StepView is one step of the visit as the executor of its turn sees it.
type StepView struct {
	machine.ToolStep
	// Payload is the request's compact JSON.
	Payload []byte
	// Result (StepStatusOK) and Error (StepStatusError) are what was recorded.
	Result []byte
	Error  machine.Fault
}

// stepViews reads requests and answers of a visit's steps.
func (e *Engine) stepViews(ctx context.Context, key runKey, steps []machine.ToolStep) ([]StepView, error) {
	views := make([]StepView, len(steps))
	for i := range steps {
		views[i].ToolStep = steps[i]
		body, err := e.record(ctx, key, steps[i].RequestSeq)
		if err != nil {
			return nil, err
		}
		switch b := body.(type) {
		case *machine.StepRequested:
			views[i].Payload = b.Payload
		case *machine.Origin:
			views[i].Payload = takenStep(b, steps[i].Step).Payload
		}
		answer := StepAnswer{StepOutcome: machine.StepOutcome{Step: steps[i].Step, AnswerSeq: steps[i].AnswerSeq}}
		if err := e.readAnswer(ctx, key, &answer); err != nil {
			return nil, err
		}
		views[i].Result, views[i].Error = answer.Result, answer.Error
	}
	return views, nil
}
