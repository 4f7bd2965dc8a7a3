package rules

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// This file handles steps that the sidecar itself requests (semantics §9). Such a step asks whether an
// attempt of another step happened, or compensates an effect. Like other steps it has attempts and a
// deadline. Turns do not see it, and budgets do not prevent it.

// ask issues a step that the sidecar itself requests. The engine stamps its payload, see [Unfilled].
func (t *txn) ask(name string, about machine.About) uint32 {
	tool, s := ToolOf(t.g, name), t.s
	s.LastStep++
	s.OwnSteps++
	if about.Role == machine.RoleCompensate {
		s.ToolCalls = int(AddCapped(int64(s.ToolCalls), 1))
	}
	fill := t.fill(s.LastStep)
	key, deadline := t.ownKey(&about), AddCapped(t.in.At, int64(tool.Timeout))
	seq := t.record(&machine.StepRequested{
		Step: s.LastStep, Key: key, Tool: name, TurnSeq: s.VisitSeq, Attempt: 1, Payload: fill.Payload, Deadline: deadline, About: &about,
	})
	s.Steps = append(t.steps(), machine.ToolStep{
		Step: s.LastStep, Key: key, Tool: name, PayloadHash: fill.Hash, Status: machine.StepStatusPending, Attempt: 1,
		TurnSeq: s.VisitSeq, RequestSeq: seq, Deadline: deadline, About: &about,
	})
	return s.LastStep
}

// fill returns the stamped payload of a step. It is empty if the payload was not stamped yet.
func (t *txn) fill(step uint32) machine.Fill {
	for i := range t.in.Fills {
		if t.in.Fills[i].Step == step {
			return t.in.Fills[i]
		}
	}
	return machine.Fill{}
}

// Unfilled returns the requests in a batch that need a payload. The engine stamps the payloads into the same input and calls Step again.
func Unfilled(b *machine.Batch) []*machine.StepRequested {
	var missing []*machine.StepRequested
	for i := range b.Records {
		if r, ok := b.Records[i].Body.(*machine.StepRequested); ok && r.About != nil && r.Payload == nil {
			missing = append(missing, r)
		}
	}
	return missing
}

// ownKey returns the key of a step that the sidecar itself requests. It appends "+" until no step of a
// turn has the same key.
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

// finding is the result of an inquiry about an attempt.
type finding uint8

const (
	unknownYet finding = iota
	happened
	didNot
)

// inquire issues a step that asks whether the current attempt of a step happened. Until this inquiry is
// answered, no worker receives the step.
func (t *txn) inquire(i int, answer *machine.StepResolved) machine.Disposition {
	step := &t.steps()[i]
	step.Doubt, step.Inquiry, step.Deadline = true, t.s.LastStep+1, 0
	t.record(&machine.StepOutcomeUnknown{
		Step: step.Step, Tool: step.Tool, Attempt: step.Attempt, Error: answer.Error, Worker: answer.Worker, By: step.Inquiry, Kind: answer.Kind,
	})
	t.ask(ToolOf(t.g, step.Tool).Reconcile, machine.About{Role: machine.RoleReconcile, Step: step.Step, Tool: step.Tool, PayloadSeq: step.PayloadSeq()})
	return machine.Accepted
}

// dropInquiry cancels the inquiry about a step that was answered before the inquiry ended.
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

// reconcileAnswer is the answer of a reconciling tool.
type reconcileAnswer struct {
	Happened *bool           `json:"happened"`
	Result   json.RawMessage `json:"result"`
}

// ReadOutcome reads the answer of a reconcile tool. did reports whether the call happened. value is the
// result of the call, or null if the answer has no result. known is false if the answer does not have
// the expected form.
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

// checkVerdict returns an error if the answer of a reconcile tool contains a result that is not valid
// as the result of the other step.
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

// concluded continues the run after a step that the sidecar itself requested has ended.
func (t *txn) concluded(i int, result []byte, fault machine.Fault) machine.Disposition {
	step := t.s.Steps[i]
	if step.About.Role == machine.RoleCompensate {
		t.compensated(&step, fault)
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
		return t.found(j, found, value)
	}
	t.foundOf(&step, found)
	return machine.Accepted
}

// found continues a step after the inquiry about it has ended. The step gets its answer or its next
// attempt. If its outcome is still unknown, the run may end.
func (t *txn) found(j int, found finding, value []byte) machine.Disposition {
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

// closeStep closes a step. If the sidecar itself requested the step, closeStep also continues the other
// step, or the compensation, that waited for it.
func (t *txn) closeStep(i int, status machine.StepStatus, seq uint64, hash [32]byte, result []byte, fault machine.Fault) machine.Disposition {
	t.settleStep(i, status, seq, hash)
	if t.s.Steps[i].About == nil {
		return machine.Accepted
	}
	return t.concluded(i, result, fault)
}
