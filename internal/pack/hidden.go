package pack

import "github.com/pawl-dev/pawl/internal/runtime/machine"

// Hidden are the names of the values that a pack calls sensitive (x_pawl.sensitive), and of
// those that follow from it; nil = nothing is sensitive. Safe for concurrent use.
type Hidden struct {
	Variables, Artifacts, Tools map[string]bool
	// Messages: what is said to and by the turns.
	Messages bool
	// AllVariables: every variable, under any name.
	AllVariables bool
}

// Hidden reads what is sensitive. An artifact that a sensitive tool's answer is written to
// is sensitive too, and so is the tool of a sensitive artifact. So is the tool that is asked
// whether a sensitive one's call happened, or that undoes it: it is told the payload and the
// result. The answer of the tool that is asked becomes that of the one that it was asked about.
func (x *XPawl) Hidden() *Hidden {
	s := x.Sensitive
	if s == nil {
		return nil
	}
	h := &Hidden{Variables: nameSet(s.Variables), Artifacts: nameSet(s.Artifacts), Tools: nameSet(s.Tools), Messages: s.Messages}
	h.bind(x.ResultBindings, x.Tools)
	return h
}

// bind closes the names over the artifacts that answers of tools are written to, and over
// the tools that are told of others' calls.
func (h *Hidden) bind(artifactOf map[string]string, tools map[string]ToolLimits) {
	for size := -1; size != len(h.Tools)+len(h.Artifacts); {
		size = len(h.Tools) + len(h.Artifacts)
		for tool, artifact := range artifactOf {
			if h.Tools[tool] || h.Artifacts[artifact] {
				h.Tools[tool], h.Artifacts[artifact] = true, true
			}
		}
		for tool := range tools {
			asked, undoes := tools[tool].Reconcile, tools[tool].Compensate
			if asked != "" && (h.Tools[tool] || h.Tools[asked]) {
				h.Tools[tool], h.Tools[asked] = true, true
			}
			if undoes != "" && h.Tools[tool] {
				h.Tools[undoes] = true
			}
		}
	}
}

// In is what is hidden in one run. The child of a sensitive tool was asked with the payload
// of a step and answers it: all that it is told and says is sensitive.
func (h *Hidden) In(s *machine.State) *Hidden {
	if h == nil || s.Parent == nil || s.Parent.Origin != "" || !h.Tools[s.Agent] {
		return h
	}
	child := *h
	child.Messages, child.AllVariables = true, true
	return &child
}

// Payload reports whether the payloads of a tool, their digests and its answers are hidden.
func (h *Hidden) Payload(tool string) bool { return h != nil && h.Tools[tool] }

func nameSet(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, name := range names {
		out[name] = true
	}
	return out
}
