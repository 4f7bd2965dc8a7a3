package rules

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Business keys (semantics §9). The step that first requests an effect owns the key of the effect after
// the commit of the request. This file only makes the rows. The store checks that no other step has the
// key. If another step has it, the engine stamps a refusal.

// sameEffect returns a denial for the second of two requests of one input that have the same effect.
func sameEffect(a *ask, earlier []ask) *machine.Denial {
	if a.Effect == [32]byte{} {
		return nil
	}
	for i := range earlier {
		if e := &earlier[i]; e.fresh() && e.Effect == a.Effect {
			return &machine.Denial{Code: machine.DuplicateEffect, Message: fmt.Sprintf("the request with key %q has the same effect", e.key)}
		}
	}
	return nil
}

// want lists the requested business keys for the engine. It does so before any bound is checked,
// because a request that is refused because of another step's key must not count against a bound.
func (t *txn) want(asks []ask) {
	for i := range asks {
		if a := &asks[i]; a.fresh() && a.Effect != [32]byte{} {
			t.wanted = append(t.wanted, a.Effect)
		}
	}
}

// takeEffect makes the step the owner of its business key.
func (t *txn) takeEffect(step *machine.ToolStep) {
	if step.Effect != [32]byte{} {
		t.effects = append(t.effects, machine.EffectChange{Op: machine.EffectTaken, Effect: effectOf(t.s, step)})
	}
}

// doubt marks a step whose effect may have happened.
func (t *txn) doubt(step *machine.ToolStep) {
	if step.Effect != [32]byte{} || t.undoable(step) {
		step.Doubt = true
	}
}

// settleEffect updates the business key after the answer of a step. After a success the step keeps the
// key, and the answer is added to the row. After a definite error the key is released. If the outcome
// is unknown, the step keeps the key without an answer.
func (t *txn) settleEffect(step *machine.ToolStep) {
	switch {
	case step.Effect == [32]byte{}:
	case step.Status == machine.StepStatusOK:
		t.effects = append(t.effects, machine.EffectChange{Op: machine.EffectDone, Effect: effectOf(t.s, step)})
	case !step.Doubt:
		t.freeEffect(step)
	}
}

// freeEffect releases the key of a step. If the step took the key in this input, both changes are
// dropped.
func (t *txn) freeEffect(step *machine.ToolStep) {
	if step.Effect == [32]byte{} {
		return
	}
	for i := range t.effects {
		if e := &t.effects[i]; e.Op == machine.EffectTaken && e.Step == step.Step {
			t.effects = append(t.effects[:i:i], t.effects[i+1:]...)
			return
		}
	}
	t.effects = append(t.effects, machine.EffectChange{Op: machine.EffectFreed, Effect: effectOf(t.s, step)})
}

// unsent reports whether no attempt of the pending step can have had an effect. This is the case if
// this input requested the step, if the step waits for a decision, or if all its attempts failed
// definitely and the next attempt is not due.
func (t *txn) unsent(step *machine.ToolStep) bool {
	if step.Doubt || step.Model != nil {
		return false
	}
	if t.old == nil || FindStep(t.old.Steps, step.Step) < 0 || step.HeldForApproval() {
		return true
	}
	return step.Attempt > 1 && outboxRow(t.g, t.s, step).Due > t.in.At
}

func effectOf(s *machine.State, step *machine.ToolStep) machine.Effect {
	return machine.Effect{Key: step.Effect, RunID: s.RunID, Step: step.Step, PayloadSeq: step.RequestSeq, AnswerSeq: step.AnswerSeq}
}
