package protocol

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// DigestMark is the prefix of a digest of a call's arguments in messages.
const DigestMark = "sha256:"

// maxReason limits the reason of a decision, in bytes. DecideStep has the same limit.
const maxReason = 4096

// Verdicts maps the values of the field "decision" in a message to decisions of the engine.
var Verdicts = map[string]machine.Verdict{"approve": machine.Approved, "deny": machine.Refused, "edit": machine.Edited}

// decided is a decision about a tool call that waits for approval: approve, deny or edit. In a message it is the
// object [ApprovalURI] in a data part.
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
		Code: machine.CodeInvalidArgument, Reason: DecisionInvalid, Field: "message.parts." + field,
		Message: fmt.Sprintf(format, args...), Allowed: []string{"approve", "deny", "edit"},
	}
}

// DecisionOf returns the decision in a message, or nil. In addition to the decision, a message may
// contain only texts. If the decision has no reason, the texts are the reason.
func DecisionOf(parts []machine.Part) (*machine.DecideStep, error) {
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
		case object[ApprovalURI] != nil:
			if raw != nil {
				return nil, badDecision(ApprovalURI, "a message decides about one call")
			}
			raw, others = object[ApprovalURI], others || len(object) > 1
		default:
			others = true
		}
	}
	switch {
	case raw == nil:
		return nil, nil
	case others:
		return nil, badDecision(ApprovalURI, "a decision comes with nothing but texts")
	}
	return readDecision(raw, strings.Join(texts, "\n"))
}

// readDecision decodes a decision. If the decision has no reason, words is the reason.
func readDecision(raw json.RawMessage, words string) (*machine.DecideStep, error) {
	var d decided
	if err := strictjson.Decode(raw, &d, strictjson.Closed); err != nil {
		return nil, badDecision(ApprovalURI, "want an object {step, digest, decision, payload, reason, expires}: %v", err)
	}
	if d.Reason == "" {
		d.Reason = words
	}
	digest, err := hex.DecodeString(strings.TrimPrefix(d.Digest, DigestMark))
	switch {
	case d.Step == 0:
		return nil, badDecision("step", "is required: the number that the question tells")
	case err != nil || len(digest) != 32 || !strings.HasPrefix(d.Digest, DigestMark):
		return nil, badDecision("digest", "want the digest that the question tells, sha256: and 64 hexadecimal digits")
	case Verdicts[d.Decision] == 0:
		return nil, badDecision("decision", "%.100q is none", d.Decision)
	case len(d.Reason) > maxReason:
		return nil, badDecision("reason", "has %d bytes, at most %d", len(d.Reason), maxReason)
	}
	c := &machine.DecideStep{Step: d.Step, Digest: [32]byte(digest), Verdict: Verdicts[d.Decision], Payload: d.Payload, Reason: d.Reason}
	if d.Expires != nil {
		c.Expires = NanosOf(*d.Expires)
	}
	return c, nil
}

// NanosOf converts a time to Unix nanoseconds. A time outside the range becomes the nearest time in the
// range.
func NanosOf(at time.Time) int64 {
	switch {
	case at.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	case at.Before(time.Unix(0, 0)):
		return 0
	}
	return at.UnixNano()
}
