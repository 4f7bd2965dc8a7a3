package a2a

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// These constants limit, in bytes, how much of a tool call's arguments a question about its approval contains:
// maxQuestionPayload in the data part, maxQuestionText in the text for people.
const (
	maxQuestionPayload = 64 << 10
	maxQuestionText    = 1024
)

// heldCall is a tool call for which the pack requires a person's decision.
type heldCall struct {
	step    uint32
	tool    string
	payload []byte
	digest  [32]byte
	reason  string
	// deadline is the time limit of the decision, Unix nanoseconds.
	deadline int64
	// open reports whether the call still waits for a decision.
	open bool
}

// redaction hides values of tool calls that wait for approval from a reader. A nil redaction hides nothing. A reader
// that may not see the values may not decide about the calls either.
type redaction struct{ hidden *pack.SensitiveNames }

// redactsArguments reports whether the arguments of a tool are sensitive.
func (v *redaction) redactsArguments(tool string) bool { return v != nil && v.hidden.Payload(tool) }

// redactsReason reports whether the error of a condition is hidden. It may quote the values that the condition reads.
func (v *redaction) redactsReason() bool { return v != nil && v.hidden != nil }

// stepRequested records that a turn has requested a step, and the call if it is held.
func (p *projector) stepRequested(b *machine.StepRequested) {
	p.started, p.backoff = true, false
	if b.Hold == nil {
		return
	}
	p.heldCalls = append(p.heldCalls, heldCall{
		step: b.Step, tool: b.Tool, payload: b.Payload, reason: b.Hold.Why, deadline: b.Deadline, open: true,
		digest: machine.CallDigest(b.Tool, p.pack, p.taskID, b.Step, validate.PayloadHash(b.Payload)),
	})
	p.questionChanged = true
}

// decided records the decision about a tool call that waited for approval, and returns the message about it in the
// task's history. There is no message about a decision that expired, after which the call waits again, or about a
// timeout.
func (p *projector) decided(seq uint64, b *machine.StepDecided) []event {
	i := slices.IndexFunc(p.heldCalls, func(h heldCall) bool { return h.step == b.Step })
	if i < 0 {
		return nil
	}
	h := &p.heldCalls[i]
	h.open, h.digest, p.questionChanged = b.Verdict == machine.Expired, b.Digest, true
	switch b.Verdict {
	case machine.Edited:
		h.payload = b.Payload
	case machine.Expired:
		h.deadline = b.Deadline
		return nil
	case machine.TimedOut:
		return nil
	}
	return []event{{seq: seq, message: p.decision(h, b)}}
}

// decision returns the message that the history of the task contains about a decision.
func (p *projector) decision(h *heldCall, b *machine.StepDecided) *a2apb.Message {
	fields := map[string]any{"step": b.Step, "tool": b.Tool, "decision": wordOf(b.Verdict)}
	if !p.redaction.redactsArguments(b.Tool) {
		fields["digest"] = digestText(b.Digest)
		if b.Verdict == machine.Edited {
			showPayload(fields, b.Payload)
		}
		if b.Reason != "" {
			fields["reason"] = b.Reason
		}
	}
	text := fmt.Sprintf("%s, step %d, was %s", h.tool, h.step, b.Verdict)
	return &a2apb.Message{
		MessageId: p.messageID(), TaskId: p.taskID, ContextId: p.contextID, Role: a2apb.Role_ROLE_USER,
		Parts: []*a2apb.Part{textPart(text), approvalPart(fields)},
	}
}

// letGo removes a tool call that was answered or cancelled from the calls that wait for approval.
func (p *projector) letGo(step uint32) {
	n := len(p.heldCalls)
	p.heldCalls = slices.DeleteFunc(p.heldCalls, func(h heldCall) bool { return h.step == step })
	p.questionChanged = p.questionChanged || len(p.heldCalls) != n
}

// hasHeldCall reports whether a call waits for a decision.
func (p *projector) hasHeldCall() bool {
	return slices.ContainsFunc(p.heldCalls, func(h heldCall) bool { return h.open })
}

// updateQuestion adds the calls that wait for a decision to the question, if a call was added or
// removed since the last question. It reports whether the last sent question is out of date.
func (p *projector) updateQuestion() (stale bool) {
	again, asked := p.questionChanged, p.questionHasHeld
	p.questionChanged, p.questionHasHeld = false, p.hasHeldCall() && !p.final.Terminal()
	if !again || p.final.Terminal() || !asked && !p.questionHasHeld {
		return false
	}
	var parts []*a2apb.Part
	if len(p.openQuestions) > 0 {
		parts = protocol.PartsToProto(p.openQuestions[0].question)
	}
	for i := range p.heldCalls {
		if p.heldCalls[i].open {
			parts = append(parts, p.questionOf(&p.heldCalls[i])...)
		}
	}
	p.question = cmp.Or(p.question, p.agentMessage(parts))
	if p.questionHasHeld {
		p.question = p.agentMessage(parts)
	}
	return true
}

// questionOf returns the question whether a tool call is approved: a text for people, and the same as data.
func (p *projector) questionOf(h *heldCall) []*a2apb.Part {
	at := time.Unix(0, h.deadline).UTC().Format(time.RFC3339)
	rule := p.graph.Tools[h.tool].Approval
	timeout, late := "deny", fmt.Sprintf("at %s it is denied", at)
	if rule != nil && rule.Escalate {
		timeout, late = "escalate", fmt.Sprintf("at %s the run ends ESCALATED", at)
	}
	fields := map[string]any{
		"step": h.step, "tool": h.tool, "deadline": at, "on_timeout": timeout, "answers": answersOf(p.graph.Tools[h.tool].Dedupe),
	}
	if rule != nil && rule.NotStarter {
		fields["not_starter"] = true
	}
	if h.reason != "" && !p.redaction.redactsReason() {
		fields["why"] = h.reason
	}
	var shown string
	switch {
	case p.redaction.redactsArguments(h.tool):
		fields["redacted"] = true
		shown = "Its arguments are told to who may read sensitive values, and they decide."
	case len(h.payload) > maxQuestionPayload:
		fields["omitted"] = len(h.payload)
		shown = fmt.Sprintf("Its arguments have %d bytes; GetRun tells them, and DecideStep decides.", len(h.payload))
	default:
		fields["digest"] = digestText(h.digest)
		showPayload(fields, h.payload)
		shown = "Arguments: " + clip(string(h.payload), maxQuestionText)
	}
	text := fmt.Sprintf("Step %d, a call of %s, waits for approval: approve, edit or deny; %s. %s", h.step, h.tool, late, shown)
	return []*a2apb.Part{textPart(text), approvalPart(fields)}
}

// showPayload adds the arguments of a call to an object: as payload, or as the text payload_json if doubles cannot hold
// one of their numbers.
func showPayload(object map[string]any, payload []byte) {
	if strictjson.Doubles(payload) != nil {
		object["payload_json"] = string(payload)
		return
	}
	object["payload"] = json.RawMessage(payload)
}

// answersOf describes the effect of each answer that a person can give to the question whether a tool call is
// approved.
func answersOf(dedupe []string) map[string]string {
	edit := "the call goes out with payload instead, which has to be what the tool takes"
	if len(dedupe) > 0 {
		edit += ", with the same " + strings.Join(dedupe, ", ")
	}
	return map[string]string{
		"approve": "the call goes out as it is",
		"edit":    edit,
		"deny":    "the call is not made; the agent is answered with the error DENIED and the reason",
	}
}

// approvalPart returns the data part of a question, or of the message about a decision.
func approvalPart(value any) *a2apb.Part {
	raw, err := json.Marshal(map[string]any{protocol.ApprovalURI: value})
	if err != nil {
		// This cannot happen, because the payload was decoded as JSON when the call was requested.
		raw = []byte("null")
	}
	var compact bytes.Buffer
	_ = json.Compact(&compact, raw)
	return &a2apb.Part{Content: &a2apb.Part_Data{Data: protocol.ValueToProto(compact.Bytes())}}
}

func digestText(d [32]byte) string { return protocol.DigestMark + hex.EncodeToString(d[:]) }

func wordOf(v machine.Verdict) string {
	for word, verdict := range protocol.Verdicts {
		if verdict == v {
			return word
		}
	}
	return v.String()
}
