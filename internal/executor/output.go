package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/pack/cost"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// output is the required form of a turn's output: JSON that matches a JSON Schema.
type output struct {
	raw      json.RawMessage
	compiled *jsonschema.Schema
}

// outputOf compiles a schema. The schema was already checked when the pack was registered. If raw is
// empty, it returns nil.
func outputOf(raw json.RawMessage) (*output, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	const url = "urn:pawl:output"
	doc, err := strictjson.Value(raw)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(cost.NewPatterns().Compile)
	if err := c.AddResource(url, doc); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(url)
	if err != nil {
		return nil, err
	}
	return &output{raw: raw, compiled: compiled}, nil
}

// noLoader returns an error for references to documents other than the schema itself.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not followed")
}

// maxMisfit bounds, in bytes, the message that explains to a model why its output does not match the schema.
const maxMisfit = 2 << 10

// part returns the output of a model as a part. If the output does not match the schema, the error
// explains why.
func (o *output) part(given string) (*pawlv1.Part, error) {
	given = strings.TrimSpace(given)
	value, err := strictjson.Value([]byte(given))
	if err != nil {
		return nil, fmt.Errorf("is no JSON: %w", err)
	}
	if !cost.Affordable(o.compiled, value) {
		return nil, fmt.Errorf("checking it takes more than %d applications of its schema", cost.MaxApplications)
	}
	if err := o.compiled.Validate(value); err != nil {
		_, why, _ := strings.Cut(err.Error(), "\n") // the first line only names the document of the schema
		return nil, errors.New(strings.ToValidUTF8(why[:min(len(why), maxMisfit)], ""))
	}
	return &pawlv1.Part{Content: &pawlv1.Part_Json{Json: given}}, nil
}

// format returns the response format in requests to the provider. It is used if the text of the answer is the turn's
// output.
func (o *output) format() json.RawMessage {
	// valid JSON can always be encoded
	raw, _ := json.Marshal(object{"type": "json_schema", "json_schema": object{"name": "output", "schema": o.raw}})
	return raw
}

// addSchema adds the schema of the output to the parameters of the exit tool, the function that leaves the state. References
// of the output's schema to parts of itself stay valid. Its $defs and definitions become those of the parameters, because
// providers support references to these.
func (o *output) addSchema(schema object) {
	properties, _ := schema["properties"].(object)
	properties["output"] = o.raw
	schema["required"] = []string{"event", "output"}
	value, _ := strictjson.Value(o.raw) // outputOf has read it
	own, ok := value.(object)
	if !ok {
		return // true and false have no references
	}
	parts := make(map[string]json.RawMessage)
	if moveReferences(own) {
		properties["output"] = own
		for name, part := range own {
			parts[name], _ = json.Marshal(part) // what was decoded can be encoded
		}
	} else if strictjson.Decode(o.raw, &parts, strictjson.Open) != nil {
		return
	}
	for _, name := range []string{"$defs", "definitions"} {
		if parts[name] != nil {
			schema[name] = parts[name]
		}
	}
}

// moveReferences makes the references in a schema refer to the same parts after the schema has become the property
// "output" of another one, and reports whether there were any. The values of enum, const, default and examples are no
// schemas. References in a schema with an $id stay: they refer to parts of this schema.
func moveReferences(schema any) (moved bool) {
	switch at := schema.(type) {
	case []any:
		for _, value := range at {
			moved = moveReferences(value) || moved
		}
	case object:
		if id, _ := at["$id"].(string); id != "" && !strings.HasPrefix(id, "#") {
			return false
		}
		for key, value := range at {
			switch key {
			case "enum", "const", "default", "examples":
			case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
				named, _ := value.(object)
				for _, one := range named {
					moved = moveReferences(one) || moved
				}
			case "$ref":
				ref, _ := value.(string)
				if ref == "#" || strings.HasPrefix(ref, "#/") && !strings.HasPrefix(ref, "#/$defs/") && !strings.HasPrefix(ref, "#/definitions/") {
					at[key], moved = "#/properties/output"+ref[1:], true
				}
			default:
				moved = moveReferences(value) || moved
			}
		}
	}
	return moved
}

// useAsOutput uses the text of the answer as the output, or all its parts if there is no schema. If the text does not
// match the schema, it returns nil, and the next request explains to the model why.
func (x *exchange) useAsOutput(answer *pawlv1.ModelAnswer, done *pawl.Completion) *pawl.Completion {
	if x.output == nil {
		done.Output = answer.GetParts()
		return done
	}
	var given strings.Builder
	for _, p := range answer.GetParts() {
		given.WriteString(p.GetText())
	}
	part, err := x.output.part(given.String())
	if err != nil {
		x.addMessage(message("user", text("The answer does not fit its JSON Schema: "+err.Error()+"\nAnswer with JSON that fits, and nothing else.")))
		return nil
	}
	done.Output = []*pawlv1.Part{part}
	return done
}
