package pack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawl-dev/pawl/internal/pack/cost"
	"github.com/pawl-dev/pawl/internal/pack/source"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// compileParameters compiles a JSON Schema of a pack: the parameters of a tool, the schema of an output or that of a check. References to
// other documents are errors.
func compileParameters(tool string, p *cost.Patterns, raw json.RawMessage) (*schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	url := "urn:pawl:tool:" + digestOf([]byte(tool))
	c := newCompiler(p)
	if err := c.AddResource(url, doc); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(url)
	if err != nil {
		return nil, err
	}
	return &schema{compiled: compiled, doc: doc}, nil
}

// schemaFaults returns the reasons why a schema cannot be compiled. The pointers in the result are
// relative to the schema.
func schemaFaults(err error) []schemaFault {
	var invalid *jsonschema.SchemaValidationError
	var ve *jsonschema.ValidationError
	if errors.As(err, &invalid) && errors.As(invalid.Err, &ve) {
		return new(schema).leafFaults(ve, nil)
	}
	return []schemaFault{{msg: source.Clip(err.Error(), 300)}}
}

// CheckPayload checks the payload of a tool call against the parameters that the pack declares for the
// tool. The payload is one JSON object; empty means {}. A tool without parameters accepts any object,
// even if the pack does not declare the tool. Faults are ordered by field. If the check would take more
// than 250 000 applications of a schema, the payload is refused without a check.
func (p *Pack) CheckPayload(tool string, payload []byte) []FieldError {
	value, fault := payloadValue(payload)
	if fault != nil {
		return []FieldError{*fault}
	}
	s := p.schemas[tool]
	if s == nil {
		return nil
	}
	if !cost.Affordable(s.compiled, value) {
		return []FieldError{{"payload", fmt.Sprintf("checking it takes more than %d applications of the tool's schema", cost.MaxApplications)}}
	}
	var out []FieldError
	for _, f := range s.validate(value) {
		out = append(out, FieldError{"payload" + f.pointer, f.msg})
	}
	return out
}

// Parameters returns the compiled schema of a tool's parameters. It returns nil if the tool accepts any object. The caller must not
// change the schema.
func (p *Pack) Parameters(tool string) *jsonschema.Schema {
	if s := p.schemas[tool]; s != nil {
		return s.compiled
	}
	return nil
}

// payloadValue decodes a payload. Numbers keep the form in which they are written, so that they can be
// checked exactly.
func payloadValue(payload []byte) (map[string]any, *FieldError) {
	if len(payload) == 0 {
		return map[string]any{}, nil
	}
	if f := source.BoundJSON(payload, DefaultLimits()); f != nil {
		return nil, &FieldError{"payload", f.Error()}
	}
	value, err := strictjson.Value(payload)
	if err != nil {
		return nil, &FieldError{"payload", fmt.Sprintf("not valid JSON: %v", err)}
	}
	obj, ok := value.(map[string]any)
	if !ok {
		return nil, &FieldError{"payload", "must be a JSON object"}
	}
	return obj, nil
}
