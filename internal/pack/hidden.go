package pack

import "github.com/pawl-dev/pawl/internal/runtime/machine"

// Hidden contains the names of the values that a pack declares as sensitive (x_pawl.sensitive), and the
// names of values that are derived from them. If it is nil, no value is sensitive. Safe for concurrent
// use.
type Hidden struct {
	Variables, Artifacts, Tools map[string]bool
	// Messages reports whether the messages to and from turns are sensitive.
	Messages bool
	// AllVariables reports whether every variable is sensitive.
	AllVariables bool
}

// Hidden returns the sensitive names. It adds names to the declared ones by three rules. If the answer
// of a sensitive tool is written to an artifact, the artifact is sensitive. If an artifact is
// sensitive, the tool whose answer is written to it is sensitive. The reconcile tool and the compensate
// tool of a sensitive tool are sensitive, because they receive its payload and result, and the answer
// of a reconcile tool becomes the answer of the other tool.
func (x *XPawl) Hidden() *Hidden {
	s := x.Sensitive
	if s == nil {
		return nil
	}
	h := &Hidden{Variables: nameSet(s.Variables), Artifacts: nameSet(s.Artifacts), Tools: nameSet(s.Tools), Messages: s.Messages}
	h.bind(x.ResultBindings, x.Tools)
	return h
}

// bind adds the names that follow from sensitive names: the artifacts to which answers of sensitive
// tools are written, the tools whose answers are written to sensitive artifacts, and the reconcile
// tools and compensate tools of sensitive tools.
func (h *Hidden) bind(artifactOf map[string]string, tools map[string]ToolLimits) {
	for size := -1; size != len(h.Tools)+len(h.Artifacts); {
		size = len(h.Tools) + len(h.Artifacts)
		for tool, artifact := range artifactOf {
			if h.Tools[tool] || h.Artifacts[artifact] {
				h.Tools[tool], h.Artifacts[artifact] = true, true
			}
		}
		for tool := range tools {
			asked, compensator := tools[tool].Reconcile, tools[tool].Compensate
			if asked != "" && (h.Tools[tool] || h.Tools[asked]) {
				h.Tools[tool], h.Tools[asked] = true, true
			}
			if compensator != "" && h.Tools[tool] {
				h.Tools[compensator] = true
			}
		}
	}
}

// In returns the sensitive names in one run. In a child run of a sensitive tool all messages are
// sensitive, because the run was started with the payload of a step and answers the step.
func (h *Hidden) In(s *machine.State) *Hidden {
	if h == nil || s.Parent == nil || s.Parent.Origin != "" || !h.Tools[s.Agent] {
		return h
	}
	child := *h
	child.Messages, child.AllVariables = true, true
	return &child
}

// Payload reports whether the payloads of a tool, the digests of these payloads, and the answers of the tool are hidden.
func (h *Hidden) Payload(tool string) bool { return h != nil && h.Tools[tool] }

func nameSet(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, name := range names {
		out[name] = true
	}
	return out
}
