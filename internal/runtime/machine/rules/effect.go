package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Business keys of tool calls (semantics §9). A business key is a key that all calls with the same effect have in
// common. The step that first requests an effect owns its key after the commit of the request. This file only computes
// the changes of the rows. The store checks that no other step has the key. If another step has it, the engine adds a
// refusal to the input.

// sameEffect returns a denial for the second of two requests of one input that have the same effect.
func sameEffect(a *requestedStep, earlier []requestedStep) *machine.Denial {
	if a.Effect == [32]byte{} {
		return nil
	}
	for i := range earlier {
		if e := &earlier[i]; e.isNew() && e.Effect == a.Effect {
			return &machine.Denial{Code: machine.DuplicateEffect, Message: fmt.Sprintf("the request with key %q has the same effect", e.key)}
		}
	}
	return nil
}

// listEffectKeys lists the business keys that the requests need, so that the engine can look them up. It runs before any bound is
// checked: a request that is refused because another step has its key must not count against a bound.
func (t *txn) listEffectKeys(asks []requestedStep) {
	for i := range asks {
		if a := &asks[i]; a.isNew() && a.Effect != [32]byte{} {
			t.wanted = append(t.wanted, a.Effect)
		}
	}
}

// takeEffect adds a row that makes the step the owner of its business key, which all calls with the same effect share.
func (t *txn) takeEffect(step *machine.ToolStep) {
	if step.Effect != [32]byte{} {
		t.effects = append(t.effects, machine.EffectChange{Op: machine.EffectTaken, Effect: effectOf(t.s, step)})
	}
}

// markDoubtful marks a step whose outcome is unknown, so that its effect may have happened.
func (t *txn) markDoubtful(step *machine.ToolStep) {
	if step.Effect != [32]byte{} || t.undoable(step) {
		step.Doubt = true
	}
}

// settleEffect updates the row of the step's business key after the answer of the step. After a success the row gets
// the answer. After an error that excludes an effect the key is released. If the outcome is unknown, the step keeps the
// key without an answer.
func (t *txn) settleEffect(step *machine.ToolStep) {
	switch {
	case step.Effect == [32]byte{}: // the step has no business key
	case step.Status == machine.StepStatusOK:
		t.effects = append(t.effects, machine.EffectChange{Op: machine.EffectDone, Effect: effectOf(t.s, step)})
	case !step.Doubt:
		t.freeEffect(step)
	}
}

// freeEffect releases the business key of a step. If the step took the key in the same input, both changes are dropped.
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

// isUnsent reports whether no attempt of the pending step can have had an effect. This is the case if
// this input requested the step, if the step waits for a decision, or if all its attempts failed
// definitely and the next attempt is not due.
func (t *txn) isUnsent(step *machine.ToolStep) bool {
	if step.Doubt || step.Model != nil {
		return false
	}
	if t.old == nil || FindStep(t.old.Steps, step.Step) < 0 || step.HeldForApproval() {
		return true
	}
	return step.Attempt > 1 && outboxRow(t.g, t.s, step).Due > t.input.At
}

func effectOf(s *machine.State, step *machine.ToolStep) machine.Effect {
	return machine.Effect{Key: step.Effect, RunID: s.RunID, Step: step.Step, PayloadSeq: step.RequestSeq, AnswerSeq: step.AnswerSeq}
}

// Compensation (semantics §9) compensates the effects of a run before the run ends with a status other than COMPLETED, and
// before an event in compensate_on is followed. The effects are undone one after the other, beginning with the last
// effect. Steps that may still have an effect must end first. During the compensation no turn is executed.

// recordEffect adds the effect of a finished step to the state, if the effect can be undone.
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

// undoable reports whether the effect of the step can be undone: a turn requested the step, and its tool has a
// compensating tool.
func (t *txn) undoable(step *machine.ToolStep) bool {
	return step.About == nil && step.Model == nil && t.g.Tools[step.Tool].Compensate != ""
}

// tooMany returns a denial for a request after which the run could have more than MaxEffects effects to undo. Pending
// steps and earlier requests of the same input are counted too.
func (t *txn) tooMany(a *requestedStep, earlier []requestedStep) *machine.Denial {
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
		if earlier[i].isNew() && t.g.Tools[earlier[i].Tool].Compensate != "" {
			n++
		}
	}
	if n < machine.MaxEffects {
		return nil
	}
	return &machine.Denial{Code: "MAX_EFFECTS", Message: fmt.Sprintf("the run has %d effects that can be undone, at most %d", n, machine.MaxEffects)}
}

// mayHappen reports whether the pending step may still have an effect that can be undone. A compensating step always
// may. A step that asks about another step may if that other step may.
func (t *txn) mayHappen(step *machine.ToolStep) bool {
	if step.Status != machine.StepStatusPending {
		return false
	}
	if step.About == nil {
		return t.undoable(step) && !step.HeldForApproval() && !t.isUnsent(step)
	}
	if step.About.Role == machine.RoleCompensate {
		return true
	}
	j := FindStep(t.s.Steps, step.About.Step)
	return j >= 0 && t.s.Steps[j].About == nil && t.mayHappen(&t.s.Steps[j])
}

// startCompensation begins to undo the effects of the run. When they are undone, the run ends, or it follows an event:
// e describes the end or the event, and after is zero unless an event follows. startCompensation returns false if there
// is no effect to undo, and no pending step that may still have one.
func (t *txn) startCompensation(e ending, after entry) bool {
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
	t.s.Undo = &machine.Undo{Status: e.status, Reason: e.reason, Event: e.event, Intended: e.intended, Cause: after.cause, ByAgent: after.byAgent, Redirects: e.redirects}
	t.s.StateTimeoutAt = 0
	t.clearForEnd()
	return true
}

// clearForEnd clears the wall-time clock and the queued inputs of a run that will end after its compensation.
func (t *txn) clearForEnd() {
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

// lastFirst returns the numbers of the steps with effects to undo, the last step first.
func (t *txn) lastFirst() []uint32 {
	var steps []uint32
	for _, effect := range slices.Backward(t.s.Effects) {
		steps = append(steps, effect.Step)
	}
	return steps
}

// divertEnd handles an end of the run that is requested while the effects of the run are being undone. If an end was
// requested before, that end is kept. If the run was going to follow an event after the compensation, it now ends
// instead, and its Ended record names the event.
func (t *txn) divertEnd(e ending) {
	if t.s.Undo.Status != machine.StatusUnset {
		return
	}
	undo := *t.s.Undo
	undo.Status, undo.Reason = e.status, e.reason
	t.s.Undo = &undo
	t.record(&machine.CompensationStarted{
		Status: undo.Status, Reason: undo.Reason, Event: undo.Event, Intended: undo.Intended, Effects: t.lastFirst(), Pending: PendingSteps(t.s),
	})
	t.clearForEnd()
}

// undoNext continues the compensation when no step is pending. It starts to undo the last effect. If it is unknown whether
// this effect happened, it may ask the reconcile tool first. If no effect is left, it ends the run or follows the event
// that the compensation delayed.
func (t *txn) undoNext() {
	for t.s.Undo != nil && len(PendingSteps(t.s)) == 0 {
		n := len(t.s.Effects)
		if n == 0 {
			t.endCompensation()
			return
		}
		effect := t.s.Effects[n-1]
		tool := t.g.Tools[effect.Tool]
		if effect.AnswerSeq == 0 && !effect.Inquired && tool.OnUnknown == machine.Reconcile {
			t.replaceLast(func(last *machine.CompensableEffect) { last.Inquired = true })
			t.issueSidecarStep(tool.Reconcile, machine.About{Role: machine.RoleReconcile, Step: effect.Step, Tool: effect.Tool, PayloadSeq: effect.PayloadSeq})
			return
		}
		t.s.Effects = t.s.Effects[: n-1 : n-1]
		undo := *t.s.Undo
		undo.Now = effect
		undo.By = t.issueSidecarStep(tool.Compensate, machine.About{
			Role: machine.RoleCompensate, Step: effect.Step, Tool: effect.Tool, PayloadSeq: effect.PayloadSeq, AnswerSeq: effect.AnswerSeq,
		})
		t.s.Undo = &undo
	}
}

// replaceLast changes the last effect of the run, in a copy of the list of effects.
func (t *txn) replaceLast(change func(*machine.CompensableEffect)) {
	t.s.Effects = append([]machine.CompensableEffect(nil), t.s.Effects...)
	change(&t.s.Effects[len(t.s.Effects)-1])
}

// foundOf applies the answer of a reconcile tool about an effect that is to be undone. If the effect did not happen,
// foundOf removes it from the list of effects.
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

// applyCompensation applies the answer of a compensating step. If the step succeeded, the business key of the undone effect
// is released. Otherwise the effect is listed as uncompensated.
func (t *txn) applyCompensation(by *machine.ToolStep, fault machine.Fault) {
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

// endCompensation ends the compensation. Then it ends the run or follows the event that the compensation delayed.
func (t *txn) endCompensation() {
	undo := t.s.Undo
	t.s.Undo, t.uncompensated = nil, undo.Uncompensated
	if undo.Status != machine.StatusUnset {
		t.finish(ending{status: undo.Status, reason: undo.Reason, event: undo.Event, intended: undo.Intended, redirects: undo.Redirects})
		return
	}
	t.move(entry{event: undo.Event, cause: undo.Cause, byAgent: undo.ByAgent})
}

// checkSettled returns an error for a command that would continue the work of the run while its effects are being undone.
// Other commands are allowed, for example answers to steps, decisions, Pause and Cancel.
func (t *txn) checkSettled() error {
	if t.s.Undo == nil {
		return nil
	}
	switch c := t.input.Command.(type) {
	case machine.EmitEvent, machine.CompleteTurn, machine.SetArtifacts, machine.FailTurn, machine.SuspendTurn, machine.RequestSteps,
		machine.RequestModel, machine.WriteOutput, machine.Steer, machine.Stop: // refused below
	case machine.SendInput: // only an answer to an agent's question is allowed
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

// The functions below handle steps that the sidecar itself requests (semantics §9). They ask a reconcile tool whether
// an attempt of another step happened, or compensate an effect. These steps have attempts and a deadline like other
// steps. Turns do not see them, and budgets do not prevent them.

// issueSidecarStep issues a step that the sidecar itself requests. The engine computes the payload of the step, see [Unfilled].
func (t *txn) issueSidecarStep(name string, about machine.About) uint32 {
	tool, s := ToolOf(t.g, name), t.s
	s.LastStep++
	s.OwnSteps++
	if about.Role == machine.RoleCompensate {
		s.ToolCalls = int(AddCapped(int64(s.ToolCalls), 1))
	}
	fill := t.computedPayload(s.LastStep)
	key, deadline := t.ownKey(&about), AddCapped(t.input.At, int64(tool.Timeout))
	seq := t.record(&machine.StepRequested{
		Step: s.LastStep, Key: key, Tool: name, TurnSeq: s.VisitSeq, Attempt: 1, Payload: fill.Payload, Deadline: deadline, About: &about,
	})
	s.Steps = append(t.steps(), machine.ToolStep{
		Step: s.LastStep, Key: key, Tool: name, PayloadHash: fill.Hash, Status: machine.StepStatusPending, Attempt: 1,
		TurnSeq: s.VisitSeq, RequestSeq: seq, Deadline: deadline, About: &about,
	})
	return s.LastStep
}

// computedPayload returns the payload of a step that the sidecar itself requests. It is empty if the engine has not computed it
// yet.
func (t *txn) computedPayload(step uint32) machine.Fill {
	for i := range t.input.Fills {
		if t.input.Fills[i].Step == step {
			return t.input.Fills[i]
		}
	}
	return machine.Fill{}
}

// Unfilled returns the requests in a batch that need a payload. The engine adds the payloads to the same input and
// calls Step a second time.
func Unfilled(b *machine.Batch) []*machine.StepRequested {
	var missing []*machine.StepRequested
	for i := range b.Records {
		if r, ok := b.Records[i].Body.(*machine.StepRequested); ok && r.About != nil && r.Payload == nil {
			missing = append(missing, r)
		}
	}
	return missing
}

// ownKey returns the key of a step that the sidecar itself requests. It appends "+" until no other step of the visit
// has the same key.
func (t *txn) ownKey(about *machine.About) string {
	word := "reconcile"
	if about.Role == machine.RoleCompensate {
		word = "compensate"
	}
	key := fmt.Sprintf("%s/%d/%d", word, about.Step, t.s.LastStep)
	for i := 0; i < len(t.s.Steps); i++ {
		if t.s.Steps[i].Key == key {
			key, i = key+"+", -1
		}
	}
	return key
}

// finding is what a reconcile tool has found out about an attempt: whether the call happened.
type finding uint8

const (
	unknownYet finding = iota
	happened
	didNot
)

// inquire issues a second step, which asks the reconcile tool whether the current attempt of a step happened. Until the
// second step is answered, no worker receives the first one.
func (t *txn) inquire(i int, answer *machine.StepResolved) machine.Disposition {
	step := &t.steps()[i]
	step.Doubt, step.Inquiry, step.Deadline = true, t.s.LastStep+1, 0
	t.record(&machine.StepOutcomeUnknown{
		Step: step.Step, Tool: step.Tool, Attempt: step.Attempt, Error: answer.Error, Worker: answer.Worker, By: step.Inquiry, Kind: answer.Kind,
	})
	t.issueSidecarStep(ToolOf(t.g, step.Tool).Reconcile, machine.About{Role: machine.RoleReconcile, Step: step.Step, Tool: step.Tool, PayloadSeq: step.PayloadSeq()})
	return machine.Accepted
}

// dropInquiry cancels the step that asks about another step, because the other step was answered first.
func (t *txn) dropInquiry(i int) {
	asked := t.s.Steps[i].Inquiry
	if asked == 0 {
		return
	}
	t.steps()[i].Inquiry = 0
	if j := FindStep(t.s.Steps, asked); j >= 0 && t.s.Steps[j].Status == machine.StepStatusPending {
		t.cancelStep(j, whyAnswered)
	}
}

// reconcileAnswer is the JSON with which a reconcile tool answers.
type reconcileAnswer struct {
	Happened *bool           `json:"happened"`
	Result   json.RawMessage `json:"result"`
}

// ReadOutcome reads the answer of a reconcile tool. did reports whether the call happened. value is the result of the
// call, or null if the answer has no result. known is false if the answer is not a valid reconcile answer.
func ReadOutcome(result []byte) (known, did bool, value []byte) {
	var v reconcileAnswer
	if json.Unmarshal(result, &v) != nil || v.Happened == nil {
		return false, false, nil
	}
	var compact bytes.Buffer
	if len(v.Result) == 0 || json.Compact(&compact, v.Result) != nil {
		return true, *v.Happened, []byte("null")
	}
	return true, *v.Happened, compact.Bytes()
}

// checkVerdict checks the answer of a reconcile tool about another step. It returns an error if the answer contains a
// result that the artifact bound to the tool of that step does not accept.
func (t *txn) checkVerdict(step *machine.ToolStep, result []byte) error {
	if step.About == nil || step.About.Role != machine.RoleReconcile {
		return nil
	}
	_, did, value := ReadOutcome(result)
	j := FindStep(t.s.Steps, step.About.Step)
	if !did || j < 0 || t.s.Steps[j].Inquiry != step.Step {
		return nil
	}
	_, err := t.boundArtifact(&machine.ResolveStep{Tool: step.About.Tool, Result: value})
	return err
}

// concludeSidecarStep continues the run after a step that the sidecar itself requested was answered.
func (t *txn) concludeSidecarStep(i int, result []byte, fault machine.Fault) machine.Disposition {
	step := t.s.Steps[i]
	if step.About.Role == machine.RoleCompensate {
		t.applyCompensation(&step, fault)
		return machine.Accepted
	}
	found, value := unknownYet, []byte(nil)
	if step.Status == machine.StepStatusOK {
		known, did, reported := ReadOutcome(result)
		switch {
		case known && did:
			found, value = happened, reported
		case known:
			found = didNot
		}
	}
	if j := FindStep(t.s.Steps, step.About.Step); j >= 0 && t.s.Steps[j].Inquiry == step.Step {
		return t.applyFinding(j, found, value)
	}
	t.foundOf(&step, found)
	return machine.Accepted
}

// applyFinding continues a step after the reconcile tool has answered about it. The step gets its answer or its next attempt.
// If the outcome is still unknown, the run may end.
func (t *txn) applyFinding(j int, found finding, value []byte) machine.Disposition {
	step := &t.steps()[j]
	step.Inquiry = 0
	used := usageOfBound(step.Bound)
	t.settleOf(step, used)
	switch found {
	case happened:
		artifacts, _ := t.boundArtifact(&machine.ResolveStep{Tool: step.Tool, Result: value}) // checked before
		seq := t.record(&machine.StepResolved{
			Step: step.Step, Tool: step.Tool, Attempt: step.Attempt, OK: true, Result: value, Artifacts: artifacts, Kind: t.recordedKind(step.Kind()), Usage: used,
		})
		t.write(artifacts, seq)
		return t.closeStep(j, machine.StepStatusOK, seq, answerHash(true, value, machine.Fault{}), value, machine.Fault{})
	case didNot:
		step.Doubt = false
		return t.failStep(j, machine.Retry, machine.StepResolved{Error: didNotHappen, Usage: used}, false, 0)
	}
	return t.failStep(j, machine.Escalate, machine.StepResolved{Error: outcomeUnknown, Unknown: true, Usage: used}, true, 0)
}

var (
	didNotHappen   = machine.Fault{Code: "NOT_DONE", Message: "the attempt did not happen"}
	outcomeUnknown = machine.Fault{Code: "OUTCOME_UNKNOWN", Message: "nobody knows whether the attempt happened"}
)

// closeStep closes a step. If the sidecar itself requested the step, closeStep also continues what waited for it: the
// compensation, or another step.
func (t *txn) closeStep(i int, status machine.StepStatus, seq uint64, hash [32]byte, result []byte, fault machine.Fault) machine.Disposition {
	t.settleStep(i, status, seq, hash)
	if t.s.Steps[i].About == nil {
		return machine.Accepted
	}
	return t.concludeSidecarStep(i, result, fault)
}
