package rules

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Compensation (semantics §9). The effects of a run are undone before the run ends with a status other
// than COMPLETED, and before an event in compensate_on is followed. They are undone one after the
// other, beginning with the last effect. Steps that may still have an effect must end first. During the
// compensation no turn is sent.

// recordEffect adds the effect of a finished step to the state, if it can be undone.
func (t *txn) recordEffect(step *machine.ToolStep) {
	if !t.undoable(step) || step.Status == machine.StepStatusPending || step.Status != machine.StepStatusOK && !step.Doubt {
		return
	}
	effect := machine.CompensableEffect{Step: step.Step, Tool: step.Tool, PayloadSeq: step.PayloadSeq(), Key: step.Effect}
	effect.Inquired = step.AnswerHash == answerHash(false, nil, outcomeUnknown)
	if step.Status == machine.StepStatusOK {
		effect.AnswerSeq = step.AnswerSeq
	}
	t.s.Effects = append(slices.Clip(t.s.Effects), effect)
}

// undoable reports whether a turn requested the step and its tool has a compensating tool.
func (t *txn) undoable(step *machine.ToolStep) bool {
	return step.About == nil && step.Model == nil && t.g.Tools[step.Tool].Compensate != ""
}

// tooMany returns a denial for a step after which the run could have more than MaxEffects effects to
// undo.
func (t *txn) tooMany(a *ask, earlier []ask) *machine.Denial {
	if t.g.Tools[a.Tool].Compensate == "" {
		return nil
	}
	n := len(t.s.Effects)
	for i := range t.s.Steps {
		if p := &t.s.Steps[i]; p.Status == machine.StepStatusPending && t.undoable(p) {
			n++
		}
	}
	for i := range earlier {
		if earlier[i].fresh() && t.g.Tools[earlier[i].Tool].Compensate != "" {
			n++
		}
	}
	if n < machine.MaxEffects {
		return nil
	}
	return &machine.Denial{Code: "MAX_EFFECTS", Message: fmt.Sprintf("the run has %d effects that can be undone, at most %d", n, machine.MaxEffects)}
}

// mayHappen reports whether the pending step may still have an effect that can be undone, or may report such an effect.
func (t *txn) mayHappen(step *machine.ToolStep) bool {
	if step.Status != machine.StepStatusPending {
		return false
	}
	if step.About == nil {
		return t.undoable(step) && !step.HeldForApproval() && !t.unsent(step)
	}
	if step.About.Role == machine.RoleCompensate {
		return true
	}
	j := FindStep(t.s.Steps, step.About.Step)
	return j >= 0 && t.s.Steps[j].About == nil && t.mayHappen(&t.s.Steps[j])
}

// startCompensation begins the compensation before the run ends or before an event is followed. It returns false if there is no effect to
// undo. cause is the cause of the transition by the event.
func (t *txn) startCompensation(e ending, cause machine.Cause) bool {
	if len(t.s.Effects) == 0 && !t.anyMayHappen() {
		return false
	}
	t.abandonTurn(whyCompensation)
	t.cancelStepsBut(whyCompensation, t.mayHappen)
	begun := &machine.CompensationStarted{
		Status: e.status, Reason: e.reason, Event: e.event, Intended: e.intended, Redirects: e.redirects,
		Effects: t.lastFirst(), Pending: PendingSteps(t.s), Artifacts: e.artifacts,
	}
	seq := t.record(begun)
	t.write(e.artifacts, seq)
	t.s.Undo = &machine.Undo{Status: e.status, Reason: e.reason, Event: e.event, Intended: e.intended, Cause: cause, Redirects: e.redirects}
	t.s.StateTimeoutAt = 0
	t.doomed()
	return true
}

// doomed clears the wall clock and the queued inputs of a run that will end after its compensation.
func (t *txn) doomed() {
	if s := t.s; s.Undo.Status != machine.StatusUnset {
		s.Deadline, s.WallLeft, s.Queue = 0, 0, nil
	}
}

func (t *txn) anyMayHappen() bool {
	for i := range t.s.Steps {
		if t.mayHappen(&t.s.Steps[i]) {
			return true
		}
	}
	return false
}

// lastFirst returns the steps with effects, in the order in which the effects are undone.
func (t *txn) lastFirst() []uint32 {
	var steps []uint32
	for _, effect := range slices.Backward(t.s.Effects) {
		steps = append(steps, effect.Step)
	}
	return steps
}

// divert handles an end of the run that is requested while the effects of the run are being undone. The
// run keeps the first such end. If the run was going to follow an event, the event is dropped.
func (t *txn) divert(e ending) {
	if t.s.Undo.Status != machine.StatusUnset {
		return
	}
	undo := *t.s.Undo
	undo.Status, undo.Reason = e.status, e.reason
	t.s.Undo = &undo
	t.record(&machine.CompensationStarted{
		Status: undo.Status, Reason: undo.Reason, Event: undo.Event, Intended: undo.Intended, Effects: t.lastFirst(), Pending: PendingSteps(t.s),
	})
	t.doomed()
}

// undoNext continues the compensation when no other step has to end first. It compensates the last
// effect. If no effect is left, it performs the end or the event that started the compensation.
func (t *txn) undoNext() {
	for t.s.Undo != nil && len(PendingSteps(t.s)) == 0 {
		n := len(t.s.Effects)
		if n == 0 {
			t.undone()
			return
		}
		effect := t.s.Effects[n-1]
		tool := t.g.Tools[effect.Tool]
		if effect.AnswerSeq == 0 && !effect.Inquired && tool.OnUnknown == machine.Reconcile {
			t.replaceLast(func(last *machine.CompensableEffect) { last.Inquired = true })
			t.ask(tool.Reconcile, machine.About{Role: machine.RoleReconcile, Step: effect.Step, Tool: effect.Tool, PayloadSeq: effect.PayloadSeq})
			return
		}
		t.s.Effects = t.s.Effects[: n-1 : n-1]
		undo := *t.s.Undo
		undo.Now = effect
		undo.By = t.ask(tool.Compensate, machine.About{
			Role: machine.RoleCompensate, Step: effect.Step, Tool: effect.Tool, PayloadSeq: effect.PayloadSeq, AnswerSeq: effect.AnswerSeq,
		})
		t.s.Undo = &undo
	}
}

// replaceLast changes the last effect in a copy of the list of effects.
func (t *txn) replaceLast(change func(*machine.CompensableEffect)) {
	t.s.Effects = append([]machine.CompensableEffect(nil), t.s.Effects...)
	change(&t.s.Effects[len(t.s.Effects)-1])
}

// foundOf applies the outcome of an inquiry about an effect that is to be undone. An effect that did not happen is removed.
func (t *txn) foundOf(by *machine.ToolStep, found finding) {
	n := len(t.s.Effects)
	if t.s.Undo == nil || n == 0 || t.s.Effects[n-1].Step != by.About.Step {
		return
	}
	switch found {
	case happened:
		t.replaceLast(func(last *machine.CompensableEffect) { last.AnswerSeq = by.AnswerSeq })
	case didNot:
		t.freeKey(&t.s.Effects[n-1])
		t.s.Effects = t.s.Effects[: n-1 : n-1]
	}
}

// compensated applies the answer of a compensating step. If the step succeeded, the business key of the
// effect is released. Otherwise the effect is listed as uncompensated.
func (t *txn) compensated(by *machine.ToolStep, fault machine.Fault) {
	if t.s.Undo == nil || t.s.Undo.By != by.Step {
		return
	}
	undo := *t.s.Undo
	effect := undo.Now
	undo.Now, undo.By = machine.CompensableEffect{}, 0
	if by.Status == machine.StepStatusOK {
		t.freeKey(&effect)
	} else {
		undo.Uncompensated = append(slices.Clip(undo.Uncompensated), machine.UncompensatedEffect{Step: effect.Step, Tool: effect.Tool, By: by.Step, Code: fault.Code})
	}
	t.s.Undo = &undo
}

// freeKey releases the business key of an effect.
func (t *txn) freeKey(e *machine.CompensableEffect) {
	if e.Key != [32]byte{} {
		t.effects = append(t.effects, machine.EffectChange{Op: machine.EffectFreed, Effect: machine.Effect{
			Key: e.Key, RunID: t.s.RunID, Step: e.Step, PayloadSeq: e.PayloadSeq, AnswerSeq: e.AnswerSeq,
		}})
	}
}

// undone is called when the compensation has ended. It ends the run or follows the event that waited
// for the compensation.
func (t *txn) undone() {
	undo := t.s.Undo
	t.s.Undo, t.uncompensated = nil, undo.Uncompensated
	if undo.Status != machine.StatusUnset {
		t.finish(ending{status: undo.Status, reason: undo.Reason, event: undo.Event, intended: undo.Intended, redirects: undo.Redirects})
		return
	}
	t.move(undo.Event, undo.Cause, nil)
}

// checkSettled returns an error for commands of turns and people while effects are being undone.
func (t *txn) checkSettled() error {
	if t.s.Undo == nil {
		return nil
	}
	switch c := t.in.Command.(type) {
	case machine.EmitEvent, machine.CompleteTurn, machine.SetArtifacts, machine.FailTurn, machine.SuspendTurn, machine.RequestSteps,
		machine.RequestModel, machine.WriteOutput, machine.Steer, machine.Stop:
	case machine.SendInput:
		if c.Step != 0 {
			return nil
		}
	default:
		return nil
	}
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "COMPENSATING", Field: "run_id", Seq: t.s.Seq,
		Message: "the effects of the run are being undone",
	}
}
