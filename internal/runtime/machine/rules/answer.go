package rules

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// resolve applies an answer to a step. It makes the checks in the order of semantics §9. An ignored
// answer is not an error.
func (t *txn) resolve(c *machine.ResolveStep) (machine.Disposition, error) {
	if t.s.Status.Terminal() {
		return machine.IgnoredTerminal, nil
	}
	if c.Step == 0 {
		return 0, &machine.Error{Code: machine.CodeInvalidArgument, Reason: "STEP_REQUIRED", Field: "step", Message: "step numbers begin at 1"}
	}
	if c.Step > t.s.LastStep {
		return t.violate(), nil
	}
	if err := CheckUsage(c.Usage); err != nil {
		return 0, err
	}
	i := FindStep(t.s.Steps, c.Step)
	if i < 0 || t.s.Steps[i].Status != machine.StepStatusPending {
		return repeated(t.s.Steps, i, c), nil
	}
	step := &t.s.Steps[i]
	switch {
	case step.Model != nil:
		return 0, &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "STEP_KIND", Field: "step",
			Message: fmt.Sprintf("step %d is a call of a model: AnswerModel answers it", step.Step),
		}
	case step.HeldForApproval() && !made(step, c.Attempt):
		return 0, NotGivenOut(step)
	case step.Tool != c.Tool:
		return t.violate(), nil
	case c.Attempt < 0 || c.Attempt > step.Attempt:
		return machine.IgnoredStale, nil // the step has no such attempt
	case !c.OK && c.Attempt != step.Attempt && c.Attempt != 0:
		return machine.IgnoredStale, nil
	case c.Unknown && step.Inquiry != 0:
		return machine.IgnoredStale, nil // another step inquires about the outcome
	}
	reported, err := t.stepUsage(step, c.Usage)
	if err != nil {
		return 0, err
	}
	used, exceeded := consumed(step, reported, c.Metered)
	if exceeded != nil {
		c.OK, c.Error, c.Final, c.Unknown = false, *exceeded, true, c.OK || c.Unknown // if usage was reported, the work was done
	}
	if c.OK {
		return t.accept(i, c, used)
	}
	tool := ToolOf(t.g, step.Tool)
	policy := tool.OnError
	if c.Unknown {
		policy = tool.OnUnknown
	}
	if c.Unknown && policy == machine.Reconcile {
		used = machine.Usage{} // the amount stays reserved until the outcome is known
	}
	t.settleOf(step, used)
	answer := machine.StepResolved{Error: c.Error, Worker: c.Worker, Unknown: c.Unknown, Usage: used}
	return t.failStep(i, policy, answer, c.Final, c.RetryAfter), nil
}

// made reports whether the attempt was already sent. This is the case if the step has a later attempt,
// even if the later attempt waits for a decision.
func made(step *machine.ToolStep, attempt int) bool { return attempt > 0 && attempt < step.Attempt }

// stepUsage returns the usage of an answer with its computed cost. The usage of a delegation is
// returned unchanged, because its cost was computed in the agent's run.
func (t *txn) stepUsage(step *machine.ToolStep, u machine.Usage) (machine.Usage, error) {
	if step.Delegation {
		return u, nil
	}
	return t.price(u)
}

// violate ends a run because a worker or caller answered a step that was never requested.
func (t *txn) violate() machine.Disposition {
	t.end(ending{status: machine.Escalated, reason: "protocol_violation"})
	return machine.DispEscalated
}

// repeated returns the disposition of a late answer: IgnoredDuplicate if it is the same answer again,
// and IgnoredStale if it is a different answer.
func repeated(steps []machine.ToolStep, i int, c *machine.ResolveStep) machine.Disposition {
	if i >= 0 && steps[i].Tool == c.Tool && steps[i].AnswerHash == answerHash(c.OK, c.Result, c.Error) {
		return machine.IgnoredDuplicate
	}
	return machine.IgnoredStale
}

// accept records a successful answer to any attempt of a step, and writes the artifact that is bound to
// the tool.
func (t *txn) accept(i int, c *machine.ResolveStep, used machine.Usage) (machine.Disposition, error) {
	artifacts, err := t.boundArtifact(c)
	if err != nil {
		return 0, err
	}
	if err := t.checkVerdict(&t.s.Steps[i], c.Result); err != nil {
		return 0, err
	}
	seq := t.record(&machine.StepResolved{
		Step: c.Step, Tool: c.Tool, Attempt: t.answered(i, c.Attempt), OK: true,
		Result: c.Result, Worker: c.Worker, Artifacts: artifacts, Usage: used, Kind: t.recordedKind(t.s.Steps[i].Kind()),
	})
	t.settleOf(&t.s.Steps[i], used)
	t.write(artifacts, seq)
	t.dropInquiry(i)
	return t.closeStep(i, machine.StepStatusOK, seq, answerHash(true, c.Result, machine.Fault{}), c.Result, machine.Fault{}), nil
}

// answered returns the number of the attempt that an answer is for. In an answer, 0 means the current
// attempt.
func (t *txn) answered(i, attempt int) int {
	if attempt == 0 {
		return t.s.Steps[i].Attempt
	}
	return attempt
}

// boundArtifact returns the write for x_pawl.result_bindings. If the artifact is a text and the result
// is a JSON string, the write contains the text of the string. Every other value is written as compact
// JSON.
func (t *txn) boundArtifact(c *machine.ResolveStep) ([]machine.ArtifactWrite, error) {
	name := t.g.Tools[c.Tool].ResultArtifact
	if name == "" {
		return nil, nil
	}
	value := c.Result
	var text string
	if machine.FormOf(t.g.Artifacts[name].Type) == machine.FormText && bytes.HasPrefix(value, []byte(`"`)) && json.Unmarshal(value, &text) == nil {
		value = []byte(text)
	}
	writes := []machine.ArtifactWrite{{Name: name, Value: value}}
	return writes, t.checkWrites(writes)
}

// settleStep closes a step with the answer in the record seq.
func (t *txn) settleStep(i int, status machine.StepStatus, seq uint64, hash [32]byte) {
	step := &t.steps()[i]
	step.Status, step.AnswerSeq, step.AnswerHash, step.Deadline, step.Bound = status, seq, hash, 0, machine.Amount{}
	t.settleEffect(step)
	t.recordEffect(step)
	if turn := t.s.Turn; turn != nil && turn.Suspended && len(AwaitedSteps(t.s)) == 0 {
		t.markTurnReady()
	}
}

// failStep handles every attempt without a successful answer. If policy and the number of attempts
// allow it, failStep issues the same step again. Otherwise the turn receives the error or the run ends.
//
// answer contains the error, the worker, and whether the outcome is unknown. final means that no
// attempt follows. after is the shortest pause before the next attempt. The pause is added to the
// deadline of the next attempt, so that the outbox row of that attempt is due when the pause has ended.
func (t *txn) failStep(i int, policy machine.OnFault, answer machine.StepResolved, final bool, after time.Duration) machine.Disposition {
	t.dropInquiry(i)
	step := &t.steps()[i]
	tool := ToolOf(t.g, step.Tool)
	answer.Step, answer.Tool, answer.Attempt, answer.Kind = step.Step, step.Tool, step.Attempt, t.recordedKind(step.Kind())
	again := !final && !isFinal(tool.Retry, answer.Error.Code) && step.Attempt < tool.Attempts && t.mayRepeat(step, answer.Unknown, policy) &&
		t.refusedBy(i, step.Bound, step.Local) == ""
	if answer.Unknown && policy == machine.Reconcile {
		return t.inquire(i, &answer)
	}
	if policy == machine.Retry {
		policy = tool.OnError
	}
	if again {
		answer.Next = step.Attempt + 1
		begin := t.in.At
		if pause := t.stepPause(tool.Retry, step, step.Attempt, after); pause > 0 {
			begin = AddCapped(begin, int64(pause))
			answer.NotBefore = begin
		}
		answer.Deadline = AddCapped(begin, int64(tool.Timeout))
		step.Attempt, step.Deadline, step.Remote = answer.Next, answer.Deadline, nil
	}
	seq := t.record(&answer)
	if answer.Unknown {
		t.doubt(step)
	}
	if again {
		return machine.Accepted
	}
	hash := answerHash(false, nil, answer.Error)
	if policy == machine.Escalate && step.About == nil {
		step.Status, step.AnswerSeq, step.AnswerHash, step.Deadline, step.Bound = machine.StepStatusError, seq, hash, 0, machine.Amount{}
		t.settleEffect(step)
		t.recordEffect(step)
		if !t.rules.budgetsBeforeEscalation || !t.endIfOverBudget("", nil) {
			t.end(ending{status: machine.Escalated, reason: "tool_error:" + step.Tool})
		}
		return machine.DispEscalated
	}
	return t.closeStep(i, machine.StepStatusError, seq, hash, nil, answer.Error)
}

// mayRepeat reports whether a further attempt cannot cause an unwanted second effect. While effects are
// being undone, no step of a turn is tried again. An inquiry about an outcome may always be tried
// again.
func (t *txn) mayRepeat(step *machine.ToolStep, unknown bool, policy machine.OnFault) bool {
	if step.About != nil && step.About.Role == machine.RoleReconcile {
		return true
	}
	return (t.s.Undo == nil || step.About != nil) && (!unknown || policy == machine.Retry)
}

// unknown handles a step with an unknown outcome. A delegation is cancelled and not sent again in a new attempt, because the agent may
// still be working.
func (t *txn) unknown(i int, fault machine.Fault, worker string) machine.Disposition {
	step := &t.s.Steps[i]
	policy := ToolOf(t.g, step.Tool).OnUnknown
	if step.Delegation {
		t.callOff(step)
		if policy == machine.Retry {
			policy = machine.Return
		}
	}
	answer := machine.StepResolved{Error: fault, Unknown: true, Worker: worker}
	if policy != machine.Reconcile {
		answer.Usage, _ = consumed(step, machine.Usage{}, false)
		t.settleOf(step, answer.Usage)
	}
	return t.failStep(i, policy, answer, false, 0)
}

// loseStep handles the loss of the worker that executed a pending step. It ignores model calls, because
// they have no worker of their own: a model call is lost together with the execution of the turn.
func (t *txn) loseStep(c *machine.LoseStep) machine.Disposition {
	if t.s.Status.Terminal() {
		return machine.IgnoredTerminal
	}
	i := FindStep(t.s.Steps, c.Step)
	if i < 0 || !t.s.Steps[i].Dispatchable() || t.s.Steps[i].Attempt != c.Attempt || t.s.Steps[i].Model != nil {
		return machine.IgnoredStale
	}
	fault := machine.Fault{Code: "WORKER_LOST", Message: fmt.Sprintf("worker %q was lost while it had the step", c.Worker)}
	return t.unknown(i, fault, c.Worker)
}

// cancelSteps closes every pending step of the visit.
func (t *txn) cancelSteps(why string) {
	t.cancelStepsBut(why, func(*machine.ToolStep) bool { return false })
}

// cancelStepsBut closes every pending step of the visit except those for which keep returns true.
func (t *txn) cancelStepsBut(why string, keep func(*machine.ToolStep) bool) {
	var kept []bool
	for i := range t.s.Steps {
		kept = append(kept, keep(&t.s.Steps[i]))
	}
	for i := range kept {
		if t.s.Steps[i].Status == machine.StepStatusPending && !kept[i] {
			t.cancelStep(i, why)
		}
	}
}

// cancelStep closes a pending step.
func (t *txn) cancelStep(i int, why string) {
	step := &t.steps()[i]
	t.record(&machine.StepCancelled{Step: step.Step, Tool: step.Tool, Why: why, Kind: t.recordedKind(step.Kind()), Usage: t.forgo(step)})
	if step.Delegation {
		t.callOff(step)
	}
	unsent := t.unsent(step)
	step.Status, step.Deadline, step.Inquiry = machine.StepStatusCancelled, 0, 0
	switch {
	case unsent:
		t.freeEffect(step)
	case t.undoable(step):
		step.Doubt = true
		t.recordEffect(step)
	}
}

// callOff sends a cancellation to the agent of a delegation that an earlier input sent. A delegation of
// the current batch was never sent, so it needs no cancellation.
func (t *txn) callOff(step *machine.ToolStep) {
	if t.old == nil || step.HeldForApproval() || !StillOut(t.old.Steps, step) {
		return
	}
	t.cancels = append(t.cancels, machine.OutboxRow{
		Namespace: t.s.Namespace, Kind: machine.OutboxCancel, Due: t.in.At, RunID: t.s.RunID, Step: step.Step, Attempt: step.Attempt,
	})
}

// answerHash returns a hash that is equal for equal answers. For a success it is computed from the
// result. For an error it is computed from the code and the message.
func answerHash(ok bool, result []byte, fault machine.Fault) [32]byte {
	if ok {
		return sha256.Sum256(append([]byte{1}, result...))
	}
	return sha256.Sum256([]byte("\x00" + fault.Code + "\x00" + fault.Message))
}
