package redact

import (
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// model replaces the sensitive values in a request to a model or in its answer. It does not change
// nested messages and parts, which are handled separately.
func (r *Rules) model(m proto.Message) bool {
	switch m := m.(type) {
	case *pawlv1.ModelRequest:
		return r.redactModelRequest(m)
	case *pawlv1.ModelAnswer:
		changed := r.hasRules() && text(&m.ProviderJson, JSONMark)
		return r.messages && text(&m.Refusal, TextMark) || changed
	case *pawlv1.ModelCall:
		// The arguments of a tool call are also the payload of a step, so they are replaced if the tool
		// is sensitive.
		if !r.messages && !r.tools[m.GetName()] {
			return false
		}
		changed := text(&m.Arguments, JSONMark)
		return text(&m.BrokenArguments, TextMark) || changed
	case *pawlv1.GetModelStepResponse:
		changed := (r.anyVariable() || len(r.artifacts) > 0) && text(&m.System, TextMark)
		changed = r.messages && text(&m.ToolsJson, JSONMark) || changed
		return r.messages && text(&m.ParametersJson, JSONMark) || changed
	}
	return false
}

// redactModelRequest removes the texts of a request, because the system prompt is rendered with variables and artifacts.
// It also removes all digests, because a reader could find a short text by trying possible texts.
func (r *Rules) redactModelRequest(m *pawlv1.ModelRequest) bool {
	changed := (r.anyVariable() || len(r.artifacts) > 0) && m.System != nil && text(m.System, TextMark)
	changed = r.messages && m.ToolsJson != nil && text(m.ToolsJson, JSONMark) || changed
	changed = r.messages && m.ParametersJson != nil && text(m.ParametersJson, JSONMark) || changed
	if r.hasRules() && len(m.GetHash()) > 0 {
		m.SystemHash, m.ToolsHash, m.ParametersHash, m.Hash = nil, nil, nil, nil
		changed = true
	}
	return changed
}
