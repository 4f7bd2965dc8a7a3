package executor

import (
	"encoding/json"
	"testing"
)

// TestReferencesOfAnOutput: the schema of an output becomes a part of the parameters of a function. Its references still
// refer to its own parts.
func TestReferencesOfAnOutput(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		`{"type":"object","properties":{"next":{"$ref":"#"},"n":{"maximum":12345678901234567890}}}`: `{"properties":{"event":{},"output":{"properties":{"n":{"maximum":12345678901234567890},"next":{"$ref":"#/properties/output"}},"type":"object"}},"required":["event","output"]}`,
		`{"properties":{"a":{"type":"string"},"b":{"anyOf":[{"$ref":"#/properties/a"},{"$ref":"#/$defs/c"}]},"default":{"$ref":"#"},"$ref":{"const":{"$ref":"#"}}},"$defs":{"c":{"$ref":"#/properties/a"}}}`: `{"$defs":{"c":{"$ref":"#/properties/output/properties/a"}},"properties":{"event":{},"output":{"$defs":{"c":{"$ref":"#/properties/output/properties/a"}},` +
			`"properties":{"$ref":{"const":{"$ref":"#"}},"a":{"type":"string"},"b":{"anyOf":[{"$ref":"#/properties/output/properties/a"},{"$ref":"#/$defs/c"}]},"default":{"$ref":"#/properties/output"}}}},"required":["event","output"]}`,
		// Without references that move, the order of the author stays.
		`{"type":"object","properties":{"b":{"$ref":"#/$defs/c"},"a":{}},"$defs":{"c":{"type":"string","maximum":1.50}}}`: `{"$defs":{"c":{"type":"string","maximum":1.50}},"properties":{"event":{},"output":{"type":"object","properties":{"b":{"$ref":"#/$defs/c"},"a":{}},"$defs":{"c":{"type":"string","maximum":1.50}}}},"required":["event","output"]}`,
		`{"$id":"urn:x","properties":{"a":{"$ref":"#"}}}`:                                                                 `{"properties":{"event":{},"output":{"$id":"urn:x","properties":{"a":{"$ref":"#"}}}},"required":["event","output"]}`,
		// The references in a schema with an $id refer to itself. Providers that ignore $id find $defs at the root.
		`{"$id":"urn:x","$ref":"#/$defs/c","$defs":{"c":{"type":"string"}}}`:                            `{"$defs":{"c":{"type":"string"}},"properties":{"event":{},"output":{"$id":"urn:x","$ref":"#/$defs/c","$defs":{"c":{"type":"string"}}}},"required":["event","output"]}`,
		`{"properties":{"a":{"$id":"urn:a","items":{"$ref":"#"}},"b":{"$ref":"#"},"$id":{"$ref":"#"}}}`: `{"properties":{"event":{},"output":{"properties":{"$id":{"$ref":"#/properties/output"},"a":{"$id":"urn:a","items":{"$ref":"#"}},"b":{"$ref":"#/properties/output"}}}},"required":["event","output"]}`,
		`true`: `{"properties":{"event":{},"output":true},"required":["event","output"]}`,
	} {
		o, err := outputOf(json.RawMessage(given))
		if err != nil {
			t.Fatal(err)
		}
		schema := object{"properties": object{"event": object{}}}
		o.addSchema(schema)
		if got, err := json.Marshal(schema); err != nil || string(got) != want {
			t.Errorf("%s becomes\n%s, want\n%s", given, got, want)
		}
	}
}
