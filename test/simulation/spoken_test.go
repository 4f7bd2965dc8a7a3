//go:build sim

package simulation

import (
	"fmt"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// talk is what the records of a run say about model calls, counted without the machine.
type talk struct {
	// open are the steps without an answer. held is what the model calls among them may consume.
	open map[uint32]bool
	held map[uint32]machine.Usage
	done map[uint32]bool
	// `anew` are the attempts whose request differs from an earlier one.
	anew map[uint32]int32
	// other are the attempts for which the record says that something else was requested too. In a state that
	// external callers move, two parties that execute its turn at the same time are one execution.
	other map[uint32]int32
	// keys are the steps of the visit. calls are the steps that make a call of a model.
	keys, calls map[string]uint32
}

func newTalk() talk {
	return talk{open: map[uint32]bool{}, held: map[uint32]machine.Usage{}, done: map[uint32]bool{}, anew: map[uint32]int32{}, other: map[uint32]int32{}, keys: map[string]uint32{}, calls: map[string]uint32{}}
}

// spoken checks what one record says about steps.
func (o *oracle) spoken(e *machine.Entry, r *machine.Record, s *spent) {
	t := &s.talk
	switch b := r.Body.(type) {
	case *machine.Transition:
		t.keys, t.calls = map[string]uint32{}, map[string]uint32{}
	case *machine.Origin:
		t.takes(b)
	case *machine.StepRequested:
		o.requested(e, b, s)
	case *machine.StepResolved:
		if b.Next > 0 {
			break
		}
		delete(t.open, b.Step)
		delete(t.held, b.Step)
		if b.Answer != nil {
			if t.done[b.Step] {
				o.world.fail("a round has one answer", "%s: step %d of %s is answered again by record %d", o.node.name, b.Step, e.RunID, r.Seq)
			}
			t.done[b.Step] = true
			o.world.endpoint.said(fmt.Sprintf("%s: record %d of %s", o.node.name, r.Seq, e.RunID), toldAnswer(b.Answer))
		}
	case *machine.ModelUpdated:
		if b.Changed {
			o.changed(e.RunID, b.Step)
			t.other[b.Step] = int32(b.Attempt)
		}
	case *machine.StepCancelled:
		delete(t.open, b.Step)
		delete(t.held, b.Step)
	case *machine.Ended:
		for step := range t.open {
			o.world.fail("no tool call dangles", "%s: %s ended with step %d open", o.node.name, e.RunID, step)
		}
	}
}

// repeated reports whether an earlier request for a step was answered from the record although it
// differed.
func (t *talk) repeated(step uint32) bool {
	for other := range t.other {
		if other < step {
			return true
		}
	}
	return false
}

// takes renumbers the answered steps that a fork copies from its source.
func (t *talk) takes(b *machine.Origin) {
	if len(b.Steps) == 0 {
		return
	}
	for at, step := range rules.Resolved(b.State) {
		own := uint32(at) + 1
		t.keys[step.Key] = own
		t.done[own] = step.Model != nil && step.Status == machine.StepStatusOK
	}
}

// toldAnswer returns an answer in the form in which a caller receives it.
func toldAnswer(a *machine.ModelAnswer) *pawlv1.ModelAnswer {
	out := &pawlv1.ModelAnswer{Refusal: a.Refusal, FinishReason: a.Finish, Model: a.Model, ResponseId: a.ResponseID, ProviderJson: string(a.Provider)}
	for _, part := range a.Parts {
		out.Parts = append(out.Parts, &pawlv1.Part{Content: &pawlv1.Part_Text{Text: part.Text}})
	}
	for _, call := range a.Calls {
		out.Calls = append(out.Calls, &pawlv1.ModelCall{Id: call.ID, Name: call.Name, Arguments: call.Arguments, BrokenArguments: call.Broken})
	}
	return out
}

// requested checks a request: no answered call is made again, a key and a model's call are one step
// each, and the bound of the call fits into the remaining budget.
func (o *oracle) requested(e *machine.Entry, b *machine.StepRequested, s *spent) {
	t := &s.talk
	if t.done[b.Step] {
		o.world.fail("an answered call is not made again", "%s: step %d of %s", o.node.name, b.Step, e.RunID)
	}
	if other, known := t.keys[b.Key]; known && other != b.Step {
		o.world.fail("a round is one step", "%s: %q is the steps %d and %d of %s", o.node.name, b.Key, other, b.Step, e.RunID)
	}
	t.keys[b.Key] = b.Step
	if b.Call != nil {
		call := fmt.Sprintf("%d/%d", b.Call.Step, b.Call.Index)
		if other, known := t.calls[call]; known && other != b.Step {
			o.world.fail("one effect for each call", "%s: the call %s of %s is made by the steps %d and %d", o.node.name, call, e.RunID, other, b.Step)
		}
		t.calls[call] = b.Step
	}
	t.open[b.Step] = true
	if b.Kind != machine.KindModel {
		return
	}
	if b.Changed {
		o.changed(e.RunID, b.Step)
	}
	if b.Model != nil {
		t.anew[b.Step] = int32(b.Attempt)
	}
	t.held[b.Step] = b.Bound
	tokens, cost := s.tokens, s.cost
	for _, u := range t.held {
		tokens, cost = tokens+max(1, u.InputTokens+u.OutputTokens), cost+max(1, u.CostMicro)
	}
	if tokens > s.limit.Tokens || cost > s.limit.CostMicro {
		o.world.fail("no budget is overspent", "%s: step %d of %s is asked for with %d tokens and %d micro-dollars used or held", o.node.name, b.Step, e.RunID, tokens, cost)
	}
}
