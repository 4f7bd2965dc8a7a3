package pack

import (
	"encoding/json"
	"slices"
	"strings"
)

// unmarshalExact decodes an object that may have unknown members. encoding/json ignores case in names
// and would decode an unknown "Budget" as "budget". unmarshalExact does not do this, because every name
// of the format is lower-case ASCII.
func unmarshalExact(raw []byte, v any) error {
	var obj map[string]json.RawMessage
	if err := json.Unmarshal(raw, &obj); err != nil {
		return err
	}
	for name := range obj {
		if strings.ContainsFunc(name, func(r rune) bool { return r >= 'A' && r <= 'Z' || r > 0x7F }) {
			delete(obj, name)
		}
	}
	clean, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	return json.Unmarshal(clean, v)
}

// UnmarshalJSON ignores members of other names.
func (e *Engine) UnmarshalJSON(raw []byte) error {
	type plain Engine
	return unmarshalExact(raw, (*plain)(e))
}

// UnmarshalJSON ignores members of other names.
func (b *Budget) UnmarshalJSON(raw []byte) error {
	type plain Budget
	return unmarshalExact(raw, (*plain)(b))
}

// UnmarshalJSON ignores members of other names.
func (c *Compilation) UnmarshalJSON(raw []byte) error {
	type plain Compilation
	return unmarshalExact(raw, (*plain)(c))
}

// UnmarshalJSON ignores members of other names.
func (m *Metric) UnmarshalJSON(raw []byte) error {
	type plain Metric
	return unmarshalExact(raw, (*plain)(m))
}

// UnmarshalJSON ignores members of other names.
func (r *MetricRange) UnmarshalJSON(raw []byte) error {
	type plain MetricRange
	return unmarshalExact(raw, (*plain)(r))
}

// stepFields are the members that a step of each kind has in addition to the members of every step. A
// step of another kind, which a vendor defines, may have any members in any form.
var stepFields = map[string][]string{
	"prompt":   {"prompt_task", "input", "output_schema", "provider"},
	"agent":    {"prompt_task", "input", "output_schema", "provider", "tools", "termination"},
	"tool":     {"tool", "args"},
	"branch":   {"predicate", "then", "else"},
	"parallel": {"branches", "reduce"},
}

// UnmarshalJSON decodes a step. It ignores members with unknown names, and members that belong to other
// kinds of steps.
func (s *Step) UnmarshalJSON(raw []byte) error {
	type plain Step
	var obj map[string]json.RawMessage
	if err := json.Unmarshal(raw, &obj); err != nil {
		return err
	}
	var kind string
	if obj["kind"] != nil {
		if err := json.Unmarshal(obj["kind"], &kind); err != nil {
			return err
		}
	}
	fields, known := stepFields[kind]
	_, s.misplaced = obj["provider"]
	s.misplaced = s.misplaced && known && !slices.Contains(fields, "provider")
	for name := range obj {
		if !slices.Contains(fields, name) && !slices.Contains([]string{"id", "kind", "description", "depends_on", "modifiers"}, name) {
			delete(obj, name)
		}
	}
	clean, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	return json.Unmarshal(clean, (*plain)(s))
}

// UnmarshalJSON ignores members of other names.
func (m *StepModifiers) UnmarshalJSON(raw []byte) error {
	type plain StepModifiers
	return unmarshalExact(raw, (*plain)(m))
}

// UnmarshalJSON ignores members of other names.
func (r *StepRetry) UnmarshalJSON(raw []byte) error {
	type plain StepRetry
	return unmarshalExact(raw, (*plain)(r))
}

// UnmarshalJSON ignores members of other names.
func (t *StepTermination) UnmarshalJSON(raw []byte) error {
	type plain StepTermination
	return unmarshalExact(raw, (*plain)(t))
}

// UnmarshalJSON ignores members of other names.
func (r *Reducer) UnmarshalJSON(raw []byte) error {
	type plain Reducer
	return unmarshalExact(raw, (*plain)(r))
}

// fillNullEntries replaces null entries of maps by empty entries. A null entry is a schema error, but the other
// checks must not fail on it.
func (d *Document) fillNullEntries() {
	fillMap(d.Prompts)
	fillMap(d.Tools)
	fillMap(d.Compositions)
	if d.Agents != nil {
		fillMap(d.Agents.Members)
	}
	if d.Workflow == nil {
		return
	}
	fillMap(d.Workflow.States)
	for _, s := range d.Workflow.States {
		fillMap(s.Artifacts)
	}
}

func fillMap[T any](m map[string]*T) {
	for key, v := range m {
		if v == nil {
			m[key] = new(T)
		}
	}
}
