package pack

import (
	"encoding/json"
	"strings"
)

// unmarshalExact decodes an object that may hold unknown members. encoding/json
// matches names without regard to case, so that an unknown "Budget" would be
// taken for "budget"; every name of the format is lower-case ASCII.
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

// UnmarshalJSON ignores members of other names.
func (s *Step) UnmarshalJSON(raw []byte) error {
	type plain Step
	return unmarshalExact(raw, (*plain)(s))
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

// fill replaces null entries of maps by empty ones, so that the rules may run
// beside the schema error that such an entry is.
func (d *Document) fill() {
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
