package pack

import "github.com/pawl-dev/pawl/internal/runtime/machine"

// SensitiveNames contains the names of the values that a pack declares as sensitive (x_pawl.sensitive), and the
// names of values that are derived from them. If it is nil, no value is sensitive. Safe for concurrent
// use.
type SensitiveNames struct {
	Variables, Artifacts, Tools map[string]bool
	// Messages reports whether the messages to and from turns are sensitive.
	Messages bool
	// AllVariables reports whether every variable is sensitive.
	AllVariables bool
}

// SensitiveNames returns the sensitive names, or nil if the pack declares none. It adds names to the declared ones by four rules. If the
// answer of a sensitive tool is written to an artifact, the artifact is sensitive. If an artifact is sensitive, the tool whose answer is
// written to it is sensitive. The reconcile tool and the compensate tool of a sensitive tool are sensitive, because they receive its
// payload and result. A tool with a sensitive reconcile tool is sensitive, because the answer of the reconcile tool becomes its answer.
func (x *XPawl) SensitiveNames() *SensitiveNames {
	s := x.Sensitive
	if s == nil {
		return nil
	}
	h := &SensitiveNames{Variables: nameSet(s.Variables), Artifacts: nameSet(s.Artifacts), Tools: nameSet(s.Tools), Messages: s.Messages}
	h.bind(x.ResultBindings, x.Tools)
	return h
}

// bind adds the names that are sensitive because another name is: the artifacts that contain answers of sensitive tools, the tools whose
// answers are written to sensitive artifacts, the reconcile and compensate tools of sensitive tools, and the tools whose reconcile tool is
// sensitive.
func (h *SensitiveNames) bind(artifactOf map[string]string, tools map[string]ToolLimits) {
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

// InRun returns the sensitive names in one run. In a child run of a sensitive tool all messages and variables are sensitive, because its
// input is the payload of the step and its output is the answer.
func (h *SensitiveNames) InRun(s *machine.State) *SensitiveNames {
	if h == nil || s.Parent == nil || s.Parent.Origin != "" || !h.Tools[s.Agent] {
		return h
	}
	child := *h
	child.Messages, child.AllVariables = true, true
	return &child
}

// Payload reports whether the payloads of a tool, the digests of these payloads, and the answers of the tool are hidden.
func (h *SensitiveNames) Payload(tool string) bool { return h != nil && h.Tools[tool] }

func nameSet(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, name := range names {
		out[name] = true
	}
	return out
}
