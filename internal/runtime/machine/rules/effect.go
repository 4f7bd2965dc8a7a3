package rules

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Business keys (section 9): the step that asks first has the effect, in the same commit as
// its request. What is written here are rows; that nobody has the key is the store's to
// check, and the host's to stamp as a refusal when somebody does.

// sameEffect refuses the second of two requests of one input that would do the same.
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

// want tells the host which business keys are asked for, before any bound is looked at: a
// request that another step's key refuses passes none.
func (t *txn) want(asks []ask) {
	for i := range asks {
		if a := &asks[i]; a.fresh() && a.Effect != [32]byte{} {
			t.wanted = append(t.wanted, a.Effect)
		}
	}
}

// takeEffect makes the business key the step's.
func (t *txn) takeEffect(step *machine.ToolStep) {
	if step.Effect != [32]byte{} {
		t.effects = append(t.effects, machine.EffectChange{Op: machine.EffectTaken, Effect: effectOf(t.s, step)})
	}
}

// doubt: an attempt may have had its effect.
func (t *txn) doubt(step *machine.ToolStep) {
	if step.Effect != [32]byte{} || t.undoable(step) {
		step.Doubt = true
	}
}

// settleEffect follows the answer of a step: a good one stays with the key, a definite error
// gives it back. Where nobody knows what came of the step, the key stays taken.
func (t *txn) settleEffect(step *machine.ToolStep) {
	switch {
	case step.Effect == [32]byte{}:
	case step.Status == machine.StepStatusOK:
		t.effects = append(t.effects, machine.EffectChange{Op: machine.EffectDone, Effect: effectOf(t.s, step)})
	case !step.Doubt:
		t.freeEffect(step)
	}
}

// freeEffect gives the key back; one that was taken by this very input never was.
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

// unsent: no attempt of the pending step can have had an effect: it was asked for by this
// very input, waits for a decision, or all its attempts failed definitely and the next one is not due.
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
