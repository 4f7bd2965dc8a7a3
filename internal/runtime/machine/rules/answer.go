package rules

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// resolve applies an answer to a step. It makes the checks in the order of the semantics document, §9. If the answer is
// ignored, the disposition gives the reason, and the error is nil.
func (t *txn) resolve(c *machine.ResolveStep) (machine.Disposition, error) {
	if t.s.Status.Terminal() {
		return machine.IgnoredTerminal, nil
	}
	if c.Step == 0 {
		return 0, &machine.Error{Code: machine.CodeInvalidArgument, Reason: "STEP_REQUIRED", Field: "step", Message: "step numbers begin at 1"}
	}
	if c.Step > t.s.LastStep {
		return t.failUnrequested(), nil
	}
	if err := CheckUsage(c.Usage); err != nil {
		return 0, err
	}
	i := FindStep(t.s.Steps, c.Step)
	if i < 0 || t.s.Steps[i].Status != machine.StepStatusPending {
		return repeatedAnswer(t.s.Steps, i, c), nil
	}
	step := &t.s.Steps[i]
	switch {
	case step.Model != nil:
		return 0, &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "STEP_KIND", Field: "step",
			Message: fmt.Sprintf("step %d is a call of a model: AnswerModel answers it", step.Step),
		}
	case step.HeldForApproval() && !wasSent(step, c.Attempt):
		return 0, NotGivenOut(step)
	case step.Tool != c.Tool:
		return t.failUnrequested(), nil
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
	used, exceeded := answerUsage(step, reported, c.Metered)
	if exceeded != nil {
		c.OK, c.Error, c.Final, c.Unknown = false, *exceeded, true, c.OK || c.Unknown // if usage was reported, the work was done
	}
	if c.OK {
		return t.accept(i, c, used)
	}
	tool := ToolOf(t.g, step.Tool)
	policy := tool.OnError
	if c.Unknown {
		policy = t.onUnknown(step)
	}
	if c.Unknown && policy == machine.Reconcile {
		used = machine.Usage{} // the amount stays reserved until the outcome is known
	}
	t.settleOf(step, used)
	answer := machine.StepResolved{Error: c.Error, Worker: c.Worker, Unknown: c.Unknown, Usage: used}
	return t.failStep(i, policy, answer, c.Final, c.RetryAfter), nil
}

// wasSent reports whether the attempt was already sent to an executor. This is true for every attempt before the current
// one. The current attempt may still wait for a decision.
func wasSent(step *machine.ToolStep, attempt int) bool { return attempt > 0 && attempt < step.Attempt }

// stepUsage returns the usage of an answer to a step, with its cost computed from the price. The cost of a delegation
// is not changed, because it was computed in the agent's run.
func (t *txn) stepUsage(step *machine.ToolStep, u machine.Usage) (machine.Usage, error) {
	if step.Delegation {
		return u, nil
	}
	return t.price(u)
}

// failUnrequested ends a run because a worker or caller answered a step that was never requested, or that was requested
// for another tool.
func (t *txn) failUnrequested() machine.Disposition {
	t.end(ending{status: machine.Escalated, reason: "protocol_violation"})
	return machine.DispEscalated
}

// repeatedAnswer returns the disposition of an answer to a step that is not pending: IgnoredDuplicate if the step has the
// same answer already. Otherwise it is IgnoredStale: the answer is different, or the step was cancelled or belongs to an
// earlier visit.
func repeatedAnswer(steps []machine.ToolStep, i int, c *machine.ResolveStep) machine.Disposition {
	if i >= 0 && steps[i].Tool == c.Tool && steps[i].AnswerHash == answerHash(c.OK, c.Result, c.Error) {
		return machine.IgnoredDuplicate
	}
	return machine.IgnoredStale
}

// accept records a successful answer to any attempt of a step, and writes the artifact that the pack binds to the
// tool's result.
func (t *txn) accept(i int, c *machine.ResolveStep, used machine.Usage) (machine.Disposition, error) {
	artifacts, err := t.boundArtifact(c)
	if err != nil {
		return 0, err
	}
	if err := t.checkVerdict(&t.s.Steps[i], c.Result); err != nil {
		return 0, err
	}
	seq := t.record(&machine.StepResolved{
		Step: c.Step, Tool: c.Tool, Attempt: t.answeredAttempt(i, c.Attempt), OK: true,
		Result: c.Result, Worker: c.Worker, Artifacts: artifacts, Usage: used, Kind: t.recordedKind(t.s.Steps[i].Kind()),
	})
	t.settleOf(&t.s.Steps[i], used)
	t.write(artifacts, seq)
	t.dropInquiry(i)
	return t.closeStep(i, machine.StepStatusOK, seq, answerHash(true, c.Result, machine.Fault{}), c.Result, machine.Fault{}), nil
}

// answeredAttempt returns the number of the attempt that an answer is for. If the answer does not name an attempt (0), it is
// for the current attempt.
func (t *txn) answeredAttempt(i, attempt int) int {
	if attempt == 0 {
		return t.s.Steps[i].Attempt
	}
	return attempt
}

// boundArtifact returns the write of the tool's result to the artifact in x_pawl.result_bindings. If the artifact is a
// text and the result is a JSON string, the write contains the text of the string. Every other value is written as
// compact JSON.
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

// settleStep closes a step with the answer in the record seq. If the suspended turn waits for no other step, the turn
// becomes ready.
func (t *txn) settleStep(i int, status machine.StepStatus, seq uint64, hash [32]byte) {
	step := &t.steps()[i]
	step.Status, step.AnswerSeq, step.AnswerHash, step.Deadline, step.Bound = status, seq, hash, 0, machine.Amount{}
	t.settleEffect(step)
	t.recordEffect(step)
	if turn := t.s.Turn; turn != nil && turn.Suspended && len(AwaitedSteps(t.s)) == 0 {
		t.markTurnReady()
	}
}

// failStep handles every attempt without a successful answer. If the outcome is unknown and policy is Reconcile, another
// step asks about the outcome first. If policy, the number of attempts and the budgets allow it, failStep issues the same
// step again. Otherwise the turn receives the error or the run ends.
//
// answer contains the error, the worker, and whether the outcome is unknown. final means that no attempt follows. after
// is the shortest pause before the next attempt. The deadline of the next attempt includes the pause, because the due
// time of the attempt's outbox row is computed from the deadline.
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
		begin := t.input.At
		if pause := t.stepPause(tool.Retry, step, step.Attempt, after); pause > 0 {
			begin = AddCapped(begin, int64(pause))
			answer.NotBefore = begin
		}
		answer.Deadline = AddCapped(begin, int64(tool.Timeout))
		step.Attempt, step.Deadline, step.Remote = answer.Next, answer.Deadline, nil
	}
	seq := t.record(&answer)
	if answer.Unknown {
		t.markDoubtful(step)
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

// mayRepeat reports whether a further attempt cannot cause an unwanted second effect. While effects are being undone,
// no step of a turn is tried again. A step that asks a reconcile tool about an outcome may always be tried again.
func (t *txn) mayRepeat(step *machine.ToolStep, unknown bool, policy machine.OnFault) bool {
	if step.About != nil && step.About.Role == machine.RoleReconcile {
		return true
	}
	return (t.s.Undo == nil || step.About != nil) && (!unknown || policy == machine.Retry)
}

// onUnknown returns what happens after an attempt of a step with an unknown outcome.
func (t *txn) onUnknown(step *machine.ToolStep) machine.OnFault {
	if step.Repeatable {
		return machine.Retry
	}
	return ToolOf(t.g, step.Tool).OnUnknown
}

// handleUnknown handles a step with an unknown outcome. A delegation is cancelled and not sent again in a new attempt, because the agent may
// still be working.
func (t *txn) handleUnknown(i int, fault machine.Fault, worker string) machine.Disposition {
	step := &t.s.Steps[i]
	policy := t.onUnknown(step)
	if step.Delegation {
		t.callOff(step)
		if policy == machine.Retry {
			policy = machine.Return
		}
	}
	answer := machine.StepResolved{Error: fault, Unknown: true, Worker: worker}
	if policy != machine.Reconcile {
		answer.Usage, _ = answerUsage(step, machine.Usage{}, false)
		t.settleOf(step, answer.Usage)
	}
	return t.failStep(i, policy, answer, false, 0)
}

// loseStep handles the loss of the worker that executed a pending step. It ignores model calls, because the executor of
// the turn makes them and they are lost together with the turn.
func (t *txn) loseStep(c *machine.LoseStep) machine.Disposition {
	if t.s.Status.Terminal() {
		return machine.IgnoredTerminal
	}
	i := FindStep(t.s.Steps, c.Step)
	if i < 0 || !t.s.Steps[i].Dispatchable() || t.s.Steps[i].Attempt != c.Attempt || t.s.Steps[i].Model != nil {
		return machine.IgnoredStale
	}
	fault := machine.Fault{Code: "WORKER_LOST", Message: fmt.Sprintf("worker %q was lost while it had the step", c.Worker)}
	return t.handleUnknown(i, fault, c.Worker)
}

// cancelSteps closes every pending step of the visit.
func (t *txn) cancelSteps(why string) {
	t.cancelStepsBut(why, func(*machine.ToolStep) bool { return false })
}

// cancelStepsBut closes every pending step of the visit except those for which keep returns true. It calls keep for all
// steps first, because the result may depend on steps that are then cancelled.
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
	t.record(&machine.StepCancelled{Step: step.Step, Tool: step.Tool, Why: why, Kind: t.recordedKind(step.Kind()), Usage: t.chargeMaximum(step)})
	if step.Delegation {
		t.callOff(step)
	}
	unsent := t.isUnsent(step)
	step.Status, step.Deadline, step.Inquiry = machine.StepStatusCancelled, 0, 0
	switch {
	case unsent:
		t.freeEffect(step)
	case t.undoable(step):
		step.Doubt = true
		t.recordEffect(step)
	}
}

// callOff sends a cancellation to the agent of a pending delegation. It sends none if the current attempt was never sent:
// the call waits for approval, or the current input itself made the attempt.
func (t *txn) callOff(step *machine.ToolStep) {
	if t.old == nil || step.HeldForApproval() || !StillOut(t.old.Steps, step) {
		return
	}
	t.cancels = append(t.cancels, machine.OutboxRow{
		Namespace: t.s.Namespace, Kind: machine.OutboxCancel, Due: t.input.At, RunID: t.s.RunID, Step: step.Step, Attempt: step.Attempt,
	})
}

// answerHash returns a hash that is equal for equal answers. The hash of a success is computed from the result, the
// hash of an error from its code and message.
func answerHash(ok bool, result []byte, fault machine.Fault) [32]byte {
	if ok {
		return sha256.Sum256(append([]byte{1}, result...))
	}
	return sha256.Sum256([]byte("\x00" + fault.Code + "\x00" + fault.Message))
}

// These constants are the defaults of Multiplier (in thousandths) and Jitter (in millionths) in [machine.RetryPolicy].
const (
	defaultMultiplier = 2000
	defaultJitter     = 200_000
)

// Backoff returns the pause after the given number of failed attempts. The pause begins with Initial, is multiplied for
// each further attempt, and is bounded by Max. Then the number jitter changes it by up to the share Jitter. jitter
// depends only on the run, the turn or step, and the attempt, so that a replay computes the same pause.
func Backoff(p machine.RetryPolicy, jitter uint32, attempt int) time.Duration {
	pause, most := cmp.Or(p.Initial, machine.DefaultInitialPause), cmp.Or(p.Max, machine.DefaultMaxPause)
	by := time.Duration(cmp.Or(p.Multiplier, defaultMultiplier))
	for range attempt - 1 {
		if by == 1000 || pause >= most {
			break
		}
		if pause > most/by*1000 {
			pause = most
			break
		}
		pause = pause/1000*by + pause%1000*by/1000 //nolint:durationcheck // by is in thousandths
	}
	pause = min(pause, most)
	share := int64(defaultJitter)
	if p.Jitter != nil {
		share = *p.Jitter
	}
	const million = 1_000_000
	shift := int64(jitter)%(2*share+1) - share
	nanos := int64(pause)
	return max(1, time.Duration(nanos+nanos/million*shift+nanos%million*shift/million))
}

// Jitter returns the number that shifts a pause: the first 4 bytes of SHA-256(run ‖ turn seq or step ‖ attempt), with
// the numbers as 8 bytes big-endian.
func Jitter(run string, of uint64, attempt int) uint32 {
	buf := append(make([]byte, 0, 64), run...)
	buf = binary.BigEndian.AppendUint64(buf, of)
	buf = binary.BigEndian.AppendUint64(buf, uint64(attempt))
	sum := sha256.Sum256(buf)
	return binary.BigEndian.Uint32(sum[:4])
}

// backoff returns the pause between two attempts of a turn or a step (semantics §5, §9).
func backoff(p machine.RetryPolicy, jitter uint32, attempt int) time.Duration {
	return Backoff(p, jitter, attempt)
}

func jitter(run string, of uint64, attempt int) uint32 { return Jitter(run, of, attempt) }

// stepPause returns the pause after the n-th consecutive failed attempt of a step: the pause that the pack sets, or the
// longer pause that the failure report requests (asked), which counts at most as Max. Without a retry policy only the
// requested pause counts.
func (t *txn) stepPause(p *machine.RetryPolicy, step *machine.ToolStep, n int, asked time.Duration) time.Duration {
	if p == nil {
		return min(asked, machine.DefaultMaxPause)
	}
	wait := backoff(*p, t.rules.jitter(t.s.RunID, uint64(step.Step), step.Attempt), n)
	return max(wait, min(asked, OrDefault(p.Max, machine.DefaultMaxPause)))
}

// isFinal reports whether no attempt follows after an error with this code.
func isFinal(p *machine.RetryPolicy, code string) bool {
	return p != nil && slices.Contains(p.NonRetryable, code)
}
