package redact

import (
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// replace replaces the sensitive values in the fields of one message. It changes a nested message only if the fields of
// the outer one decide whether its values are sensitive.
func (r *Rules) replace(m proto.Message) bool {
	switch m := m.(type) {
	case *pawlv1.ArtifactWrite:
		return r.artifacts[m.GetName()] && value(m.GetValue())
	case *pawlv1.Artifact:
		return r.artifacts[m.GetHead().GetName()] && value(m.GetValue())
	case *pawlv1.ArtifactHead:
		// The digest is removed too, because a reader could find a short value by trying possible
		// values.
		known := r.artifacts[m.GetName()] && len(m.GetHash()) > 0
		if known {
			m.Hash = nil
		}
		return known
	case *pawlv1.Part:
		return r.messages && part(m)
	case *pawlv1.Message:
		return r.message(m)
	case *pawlv1.InputReceived:
		return r.coversInputs() && parts(m.GetParts())
	case *pawlv1.Steered:
		return r.coversInputs() && text(&m.Text, TextMark)
	case *pawlv1.IncludedMessage:
		return r.coversInputs() && text(&m.Text, TextMark)
	case *pawlv1.Envelope:
		// The metadata of a sender or a delegation may contain variables.
		return (r.messages || r.anyVariable()) && text(&m.MetadataJson, JSONMark)
	case *pawlv1.OutputPiece:
		changed := r.messages && text(&m.Description, TextMark)
		return r.messages && text(&m.MetadataJson, JSONMark) || changed
	case *pawlv1.TurnFailed:
		// The error may quote any input of the turn.
		changed := r.hasRules() && failure(m.GetError())
		return r.hasRules() && m.GetViolation() != nil && text(&m.Violation.Reason, TextMark) || changed
	case *pawlv1.WorkFailure:
		return (r.tools[m.GetTool()] || m.GetTool() == "" && r.hasRules()) && failure(m.GetError())
	case *pawlv1.EvalResult:
		// A schema's faults repeat parts of the output.
		changed := r.hasRules() && text(&m.Explanation, TextMark)
		return r.hasRules() && text(&m.Error, TextMark) || changed
	case *pawlv1.Approval:
		// The error of a condition may contain the values that the condition reads.
		return r.hasRules() && text(&m.ConditionError, TextMark)
	case *pawlv1.ApprovalHold:
		return r.hasRules() && text(&m.ConditionError, TextMark)
	case *pawlv1.GetRunResponse:
		changed := r.object(&m.VariablesJson)
		// The goal is the text of an input, or a variable.
		return (r.messages || r.anyVariable()) && text(&m.Goal, TextMark) || changed
	case *pawlv1.GetTurnResponse:
		changed := r.object(&m.VariablesJson)
		// The prompt is rendered with variables and artifacts.
		return (r.anyVariable() || len(r.artifacts) > 0) && text(&m.SystemPrompt, TextMark) || changed
	}
	return r.model(m) || r.step(m)
}

// step replaces payloads, answers and errors of sensitive tools.
func (r *Rules) step(m proto.Message) bool {
	called, ok := m.(interface{ GetTool() string })
	if !ok || !r.tools[called.GetTool()] {
		return false
	}
	switch m := m.(type) {
	case *pawlv1.StepRequested:
		changed := text(&m.PayloadJson, JSONMark)
		if m.GetHold() != nil {
			changed = text(&m.GetHold().Digest, "") || changed
		}
		return changed
	case *pawlv1.StepDecided:
		// The digest is removed too, because a reader could use it to verify a guess of the payload.
		changed := text(&m.PayloadJson, JSONMark)
		changed = text(&m.Digest, "") || changed
		return text(&m.Reason, TextMark) || changed
	case *pawlv1.StepOutcomeUnknown:
		return failure(m.GetError())
	case *pawlv1.StepResolved:
		changed := text(&m.ResultJson, JSONMark)
		return failure(m.GetError()) || changed
	case *pawlv1.Step:
		changed := text(&m.PayloadJson, JSONMark)
		if m.GetApproval() != nil {
			// A reader that may not see a call's arguments must not be able to approve the call. For that it would
			// need the digest.
			changed = text(&m.GetApproval().Digest, "") || changed
		}
		changed = text(&m.ResultJson, JSONMark) || changed
		return failure(m.GetError()) || changed
	case *pawlv1.StepRejected:
		// The message about a bad payload quotes it.
		return m.GetDenial() != nil && text(&m.GetDenial().Message, TextMark)
	case *pawlv1.StepDelegated:
		return parts(m.GetQuestion())
	}
	return false
}

// message replaces the values of tools and inputs in a message of a conversation, and the data of its provider. If any
// tool is sensitive, it replaces the answers of all tools, because a message does not name the tool that it answers.
func (r *Rules) message(m *pawlv1.Message) bool {
	changed := false
	if len(r.tools) > 0 || r.messages {
		changed = text(&m.ToolCallsJson, `[`+JSONMark+`]`)
	}
	// The data that must be sent back to a provider may contain any value.
	changed = r.hasRules() && text(&m.ProviderJson, JSONMark) || changed
	changed = r.messages && text(&m.Refusal, TextMark) || changed
	if len(r.tools) > 0 && m.GetRole() == "tool" || r.coversInputs() && m.GetRole() == "user" {
		changed = parts(m.GetParts()) || changed
	}
	return changed
}

func (r *Rules) object(json *string) bool {
	text, changed := r.Variables(*json)
	*json = text
	return changed
}

// text replaces a text by a mark, unless the text is empty.
func text(s *string, mark string) bool {
	if *s == "" {
		return false
	}
	*s = mark
	return true
}

func value(v *pawlv1.ArtifactValue) bool {
	switch v.GetValue().(type) {
	case nil:
		return false
	case *pawlv1.ArtifactValue_Json:
		v.Value = &pawlv1.ArtifactValue_Json{Json: JSONMark}
	case *pawlv1.ArtifactValue_Text:
		v.Value = &pawlv1.ArtifactValue_Text{Text: TextMark}
	default:
		v.Value = &pawlv1.ArtifactValue_Data{Data: []byte(TextMark)}
	}
	return true
}

func parts(all []*pawlv1.Part) bool {
	for _, p := range all {
		part(p)
	}
	return len(all) > 0
}

// part removes everything except the media type.
func part(p *pawlv1.Part) bool {
	mediaType := p.GetMediaType()
	proto.Reset(p)
	p.MediaType = mediaType
	p.Content = &pawlv1.Part_Text{Text: TextMark}
	if mediaType == "application/json" {
		p.Content = &pawlv1.Part_Json{Json: JSONMark}
	}
	return true
}

func failure(f *pawlv1.Fault) bool {
	if f == nil {
		return false
	}
	changed := text(&f.Message, TextMark)
	return text(&f.Trace, TextMark) || changed
}
