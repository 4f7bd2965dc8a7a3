package a2a

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// maxReason limits the reason of a decision, in bytes. DecideStep has the same limit.
const maxReason = 4096

// verdicts maps the values of the field "decision" in a message to decisions of the engine.
var verdicts = map[string]machine.Verdict{"approve": machine.Approved, "deny": machine.Refused, "edit": machine.Edited}

// decided is a decision about a tool call that waits for approval: approve, deny or edit. In a message it is the
// object [protocol.ApprovalURI] in a data part.
type decided struct {
	Step     uint32          `json:"step"`
	Digest   string          `json:"digest"`
	Decision string          `json:"decision"`
	Payload  json.RawMessage `json:"payload"`
	Reason   string          `json:"reason"`
	Expires  *time.Time      `json:"expires"`
}

// badDecision returns the error for a data part that is not a valid decision.
func badDecision(field, format string, args ...any) error {
	return &machine.Error{
		Code: machine.CodeInvalidArgument, Reason: protocol.DecisionInvalid, Field: "message.parts." + field,
		Message: fmt.Sprintf(format, args...), Allowed: []string{"approve", "deny", "edit"},
	}
}

// decisionOf returns the decision in a message, or nil. In addition to the decision, a message may
// contain only texts. If the decision has no reason, the texts are the reason.
func decisionOf(parts []machine.Part) (*machine.DecideStep, error) {
	var raw json.RawMessage
	var texts []string
	others := false
	for i := range parts {
		var object map[string]json.RawMessage
		if parts[i].Kind == machine.PartJSON {
			object, _ = strictjson.Object(parts[i].Data)
		}
		switch p := &parts[i]; {
		case p.Kind == machine.PartText:
			texts = append(texts, p.Text)
		case object[protocol.ApprovalURI] != nil:
			if raw != nil {
				return nil, badDecision(protocol.ApprovalURI, "a message decides about one call")
			}
			raw, others = object[protocol.ApprovalURI], others || len(object) > 1
		default:
			others = true
		}
	}
	switch {
	case raw == nil:
		return nil, nil
	case others:
		return nil, badDecision(protocol.ApprovalURI, "a decision comes with nothing but texts")
	}
	return readDecision(raw, strings.Join(texts, "\n"))
}

// readDecision decodes a decision. If the decision has no reason, words is the reason.
func readDecision(raw json.RawMessage, words string) (*machine.DecideStep, error) {
	var d decided
	if err := strictjson.Decode(raw, &d, strictjson.Closed); err != nil {
		return nil, badDecision(protocol.ApprovalURI, "want an object {step, digest, decision, payload, reason, expires}: %v", err)
	}
	if d.Reason == "" {
		d.Reason = words
	}
	digest, err := hex.DecodeString(strings.TrimPrefix(d.Digest, digestMark))
	switch {
	case d.Step == 0:
		return nil, badDecision("step", "is required: the number that the question tells")
	case err != nil || len(digest) != 32 || !strings.HasPrefix(d.Digest, digestMark):
		return nil, badDecision("digest", "want the digest that the question tells, sha256: and 64 hexadecimal digits")
	case verdicts[d.Decision] == 0:
		return nil, badDecision("decision", "%q is none", clip(d.Decision, 100))
	case len(d.Reason) > maxReason:
		return nil, badDecision("reason", "has %d bytes, at most %d", len(d.Reason), maxReason)
	}
	c := &machine.DecideStep{Step: d.Step, Digest: [32]byte(digest), Verdict: verdicts[d.Decision], Payload: d.Payload, Reason: d.Reason}
	if d.Expires != nil {
		c.Expires = nanosOf(*d.Expires)
	}
	return c, nil
}

// decide records a decision about a tool call of the task's run that waits for approval. The principal that answers
// needs the scope for decisions. The rights of the task's sender are not used.
func (s *Service) decide(ctx context.Context, m *inbound, state *machine.State, c *machine.DecideStep) (runtime.Answer, error) {
	answer, err := s.cfg.Engine.Apply(ctx, runtime.Request{
		RunRef: runtime.RunRef{Call: m.speaker, RunID: state.RunID}, ID: m.id, Command: *c,
	})
	if reasonOf(err) == "RUN_TERMINAL" {
		return answer, failAt(unsupportedOperation, "message.taskId", "task %s has ended, nothing is left to decide", state.RunID)
	}
	return answer, err
}

// passesOn reports whether a decision is about a held tool call (one that waits for approval) of a run that this run
// started by a delegation. Otherwise the call is one of this run. A call with the decision's step number and digest
// is one of this run. If the principal may not see the call's payload, the number is enough: comparing the digest
// would reveal whether a guess of the payload is right.
func (s *Service) passesOn(ctx context.Context, speaker runtime.Call, state *machine.State, c *machine.DecideStep) (bool, error) {
	if askingStep(state) == 0 {
		return false, nil
	}
	for i := range state.Steps {
		p := &state.Steps[i]
		if p.Step != c.Step || !p.HeldForApproval() {
			continue
		}
		if p.Approval.Digest == c.Digest {
			return false, nil
		}
		if speaker.Principal.Scopes.Has(runtime.ScopeValuesSensitive) {
			return true, nil
		}
		owner, err := s.cfg.Engine.PackOf(ctx, s.cfg.Engine.NamespaceName(state.Namespace), state)
		return err == nil && !owner.XPawl().SensitiveNames().Payload(p.Tool), err
	}
	return true, nil
}
