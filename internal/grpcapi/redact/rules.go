package redact

import (
	"encoding/json"
	"maps"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pawl-dev/pawl/internal/pack"
)

// These are the marks that replace a value: one for JSON and one for text.
const (
	JSONMark = `{"redacted":true}`
	TextMark = "[redacted]"
)

// Rules describe the sensitive values in the runs of one pack. nil means that there are none. Safe for
// concurrent use.
type Rules struct {
	variables, artifacts, tools map[string]bool
	// messages means that the messages to and from the turns are sensitive.
	messages bool
	// allVariables means that every variable is sensitive.
	allVariables bool
}

// NewRules returns the rules for the hidden values of a pack. It returns nil if no values are hidden.
func NewRules(h *pack.SensitiveNames) *Rules {
	if h == nil {
		return nil
	}
	return &Rules{variables: h.Variables, artifacts: h.Artifacts, tools: h.Tools, messages: h.Messages, allVariables: h.AllVariables}
}

func (r *Rules) anyVariable() bool { return r.allVariables || len(r.variables) > 0 }

// coversInputs reports whether an input of a run may contain a sensitive value. JSON parts become variables,
// and an answer to the question of a delegated tool is an input.
func (r *Rules) coversInputs() bool { return r.messages || r.anyVariable() || len(r.tools) > 0 }

// hasRules reports whether there is any rule.
func (r *Rules) hasRules() bool { return r.coversInputs() || len(r.artifacts) > 0 }

// Apply replaces every sensitive value in a message, at any depth, and reports whether there was one.
// If a message has a field that marks it as redacted, Apply sets this field.
func (r *Rules) Apply(m proto.Message) bool {
	if r == nil || m == nil {
		return false
	}
	return r.redactFields(m.ProtoReflect())
}

// redactFields replaces the sensitive values in a message and in all messages inside it. It reports whether it
// changed anything.
func (r *Rules) redactFields(m protoreflect.Message) bool {
	if !m.IsValid() {
		return false
	}
	changed := r.replace(m.Interface())
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap():
			if field.MapValue().Message() != nil {
				value.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					changed = r.redactFields(v.Message()) || changed
					return true
				})
			}
		case field.Message() == nil: // replace handles plain fields
		case field.IsList():
			for i := range value.List().Len() {
				changed = r.redactFields(value.List().Get(i).Message()) || changed
			}
		default:
			changed = r.redactFields(value.Message()) || changed
		}
		return true
	})
	if mark := m.Descriptor().Fields().ByName("redacted"); changed && mark != nil {
		m.Set(mark, protoreflect.ValueOfBool(true))
	}
	return changed
}

// Variables replaces the sensitive variables in a JSON object. It replaces a text that is no JSON object as a whole.
func (r *Rules) Variables(object string) (string, bool) {
	if r == nil || !r.anyVariable() || object == "" {
		return object, false
	}
	var values map[string]json.RawMessage
	if json.Unmarshal([]byte(object), &values) != nil {
		return JSONMark, true
	}
	changed := false
	for name := range maps.Keys(values) {
		if r.allVariables || r.variables[name] {
			values[name], changed = json.RawMessage(JSONMark), true
		}
	}
	if !changed {
		return object, false
	}
	// An error is not possible, because raw messages that were just decoded can be encoded again. If there were one, all
	// variables would be hidden.
	text, err := json.Marshal(values)
	if err != nil {
		return JSONMark, true
	}
	return string(text), true
}
