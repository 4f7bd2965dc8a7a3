package history

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// MaxStepBytes bounds the payloads and results of steps in one answer, in bytes. It applies to the
// newest steps of a turn, and to the steps that a request repeats. Further steps are returned without
// payload and result. The caller can request each of them by its key.
const MaxStepBytes = 16 << 20

// FaultBytes returns the size of a fault, in bytes.
func FaultBytes(f machine.Fault) int64 { return int64(len(f.Code) + len(f.Message) + len(f.Trace)) }

// Recorded is the recorded answer of a step: Result if its status is OK, Error if it failed. Unknown means
// that the outcome of the call is unknown: it may have had its effect in spite of the error. The answer of a
// model call is in Model, with its Usage.
type Recorded struct {
	Result  []byte
	Error   machine.Fault
	Unknown bool
	Model   *machine.ModelAnswer
	Usage   machine.Usage
}

// Bytes returns the size of the answer, in bytes.
func (r *Recorded) Bytes() int64 {
	return int64(len(r.Result)) + FaultBytes(r.Error) + modelBytes(r.Model)
}

// Answer reads the recorded answer of a step from the record seq. If seq is 0, the step has no answer,
// and Answer returns the zero value.
func (r *Reader) Answer(ctx context.Context, key machine.RunKey, step uint32, seq uint64) (out Recorded, err error) {
	if seq == 0 {
		return out, nil
	}
	body, err := r.Body(ctx, key, seq)
	if err != nil {
		return out, err
	}
	switch b := body.(type) {
	case *machine.StepResolved:
		out = Recorded{Result: b.Result, Error: b.Error, Unknown: b.Unknown, Model: b.Answer, Usage: b.Usage}
	case *machine.Origin:
		taken := takenStep(b, step)
		out = Recorded{Result: taken.Result, Error: taken.Error, Model: taken.Answer}
	}
	return out, nil
}

// StepAnswer is a requested step with its outcome, as the executor of the turn receives it.
type StepAnswer struct {
	machine.StepOutcome
	// Payload is the recorded payload. It is set only if it may differ from the payload in the request.
	Payload []byte
	Recorded
	// Omitted reports whether payload, result and error are left out because of [MaxStepBytes].
	Omitted bool
}

// Answers reads the recorded answers of steps, in the order of outcomes, together at most
// [MaxStepBytes].
func (r *Reader) Answers(ctx context.Context, key machine.RunKey, outcomes []machine.StepOutcome) ([]StepAnswer, error) {
	var answers []StepAnswer
	left := int64(MaxStepBytes)
	for _, outcome := range outcomes {
		step := StepAnswer{StepOutcome: outcome}
		if left >= 0 {
			if err := r.fillAnswer(ctx, key, &step); err != nil {
				return nil, err
			}
			left -= step.Bytes() + int64(len(step.Payload))
		}
		if left < 0 && step.AnswerSeq|step.PayloadSeq != 0 {
			step.Recorded, step.Payload, step.Omitted = Recorded{}, nil, true
		}
		answers = append(answers, step)
	}
	return answers, nil
}

// fillAnswer reads the payload and the recorded answer of a step.
func (r *Reader) fillAnswer(ctx context.Context, key machine.RunKey, step *StepAnswer) (err error) {
	if step.PayloadSeq != 0 {
		if step.Payload, _, err = r.requestAt(ctx, key, step.Step, step.PayloadSeq); err != nil {
			return err
		}
	}
	step.Recorded, err = r.Answer(ctx, key, step.Step, step.AnswerSeq)
	return err
}

// requestAt reads the request of a step from the record seq. It returns the payload or, for a model
// call, the model request.
func (r *Reader) requestAt(ctx context.Context, key machine.RunKey, step uint32, seq uint64) ([]byte, *machine.ModelRequest, error) {
	body, err := r.Body(ctx, key, seq)
	if err != nil {
		return nil, nil, err
	}
	switch b := body.(type) {
	case *machine.StepRequested:
		return b.Payload, b.Model, nil
	case *machine.StepDecided:
		return b.Payload, nil, nil
	case *machine.Origin:
		taken := takenStep(b, step)
		return taken.Payload, taken.Request, nil
	}
	return nil, nil, nil
}

// takenStep returns the step with this number among the steps that a fork copied, or the zero value.
func takenStep(origin *machine.Origin, step uint32) machine.TakenStep {
	for i := range origin.Steps {
		if origin.Steps[i].Step == step {
			return origin.Steps[i]
		}
	}
	return machine.TakenStep{}
}

// StepView is a step of the visit with its request and answer, as the executor of the turn receives it.
type StepView struct {
	machine.ToolStep
	// Payload is the payload of the request, as compact JSON.
	Payload []byte
	// Request is the model request. It is nil if the step is not a model call.
	Request *machine.ModelRequest
	Recorded
	// Omitted reports whether payload, result and error are left out because of [MaxStepBytes].
	Omitted bool
}

// Bytes returns the size of the payload, request and answer, in bytes.
func (v *StepView) Bytes() int64 {
	return int64(len(v.Payload)) + v.Recorded.Bytes() + requestBytes(v.Request)
}

// Step reads one step's request and answer.
func (r *Reader) Step(ctx context.Context, key machine.RunKey, step *machine.ToolStep) (StepView, error) {
	view := StepView{ToolStep: *step}
	var err error
	if view.Payload, view.Request, err = r.requestAt(ctx, key, step.Step, step.PayloadSeq()); err != nil {
		return view, err
	}
	view.Recorded, err = r.Answer(ctx, key, step.Step, step.AnswerSeq)
	return view, err
}

// Steps reads requests and answers of steps.
func (r *Reader) Steps(ctx context.Context, key machine.RunKey, steps []machine.ToolStep) ([]StepView, error) {
	views := make([]StepView, len(steps))
	for i := range steps {
		view, err := r.Step(ctx, key, &steps[i])
		if err != nil {
			return nil, err
		}
		views[i] = view
	}
	return views, nil
}

// VisitSteps reads the steps of a visit. Payloads and answers are read only for the newest steps, as
// many as [MaxStepBytes] allows.
func (r *Reader) VisitSteps(ctx context.Context, key machine.RunKey, steps []machine.ToolStep) ([]StepView, error) {
	views := make([]StepView, len(steps))
	left := int64(MaxStepBytes)
	for i := len(steps) - 1; i >= 0; i-- {
		if left >= 0 {
			view, err := r.Step(ctx, key, &steps[i])
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

// EarlierRefusal returns the refusal of an earlier request of the open turn, if that request had the same
// effect and the same key as the step. It returns nil if there is none. Records after `until` are
// ignored.
func (r *Reader) EarlierRefusal(ctx context.Context, key machine.RunKey, step *machine.ToolStep, until uint64) (*machine.Denial, error) {
	for from := step.TurnSeq; from <= until; {
		entries, err := r.store.Entries(ctx, key.Namespace, key.ID, from, Page)
		if err != nil {
			return nil, fmt.Errorf("runtime: read run %s from record %d: %w", key.ID, from, err)
		}
		if len(entries) == 0 {
			return nil, nil
		}
		for i := range entries {
			if denial := refusedIn(&entries[i], step); denial != nil {
				return denial, nil
			}
		}
		last := &entries[len(entries)-1]
		from = last.First + uint64(len(last.Records))
	}
	return nil, nil
}

// refusedIn returns the refusal that an entry records for a request with the step's key, if the reason
// was that another step has the same effect. Otherwise it returns nil.
func refusedIn(entry *machine.Entry, step *machine.ToolStep) *machine.Denial {
	asked, ok := entry.Input.Command.(machine.RequestSteps)
	same := func(r machine.StepRequest) bool {
		return r.Effect == step.Effect && r.Denied != nil && r.Denied.Code == machine.DuplicateEffect
	}
	if !ok || !slices.ContainsFunc(asked.Requests, same) {
		return nil
	}
	for i := range entry.Records {
		b, ok := entry.Records[i].Body.(*machine.StepRejected)
		if ok && b.Key == step.Key && b.Tool == step.Tool && b.TurnSeq == step.TurnSeq && b.Denial.Code == machine.DuplicateEffect {
			return &b.Denial
		}
	}
	return nil
}
