package openapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/gen"
)

const small = `{
 "paths": {
  "/v1/things:stream": {"get": {
   "parameters": [
    {"name": "filter.labels.key", "in": "query"}, {"name": "filter.labels.value", "in": "query"}, {"name": "after", "in": "query"}],
   "responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/x"}}}}}}},
  "/v1/things": {"post": {
   "requestBody": {"content": {"application/json": {"schema": {
    "type": "object", "properties": {"name": {"type": "string", "description": "Its name; required.\\nstring.max_bytes = 9\\n"}}}}}},
   "responses": {"200": {}}}}},
 "components": {"schemas": {
  "v1.PutRequest": {"type": "object", "description": "Puts.", "additionalProperties": false, "allOf": [
   {"properties": {"id": {"type": "string", "description": "Id; required."}}},
   {"oneOf": [{"properties": {"b": {"type": "string"}}}, {"properties": {"a": {"type": "string"}}}]}]},
  "v1.Thing": {"type": "object", "additionalProperties": false, "properties": {"note": {"type": "string", "description": "No id is required."}}}}}}`

func TestFinish(t *testing.T) {
	t.Parallel()
	out, err := Finish([]byte(strings.ReplaceAll(small, "\\\\n", "\\n")))
	if err != nil {
		t.Fatal(err)
	}
	var doc object
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatal(err)
	}
	put, _ := at(doc, "components", "schemas", "v1.PutRequest")
	fields, _ := at(put, "properties")
	if len(fields) != 3 || put["allOf"] != nil || put["additionalProperties"] != false || put["description"] != "Puts.\nAt most one of a, b." {
		t.Errorf("a oneof: %v", put)
	}
	if required, _ := put["required"].([]any); !slices.Equal(required, []any{"id"}) {
		t.Errorf("required %v", put["required"])
	}
	thing, _ := at(doc, "components", "schemas", "v1.Thing")
	if thing["required"] != nil || thing["additionalProperties"] != nil {
		t.Errorf("an answer: %v", thing)
	}
	post, _ := at(doc, "paths", "/v1/things", "post")
	body, _ := at(post, "requestBody", "content", "application/json", "schema")
	name, _ := at(body, "properties", "name")
	if required, _ := body["required"].([]any); !slices.Equal(required, []any{"name"}) || name["description"] != "Its name; required." {
		t.Errorf("a body: %v", body)
	}
	if _, ok := at(post, "responses", "default", "content", "application/json"); !ok {
		t.Errorf("no error in %v", post["responses"])
	}
	get, _ := at(doc, "paths", "/v1/things:stream", "get")
	parameters, _ := get["parameters"].([]any)
	if len(parameters) != 2 || parameters[0].(object)["style"] != "deepObject" || parameters[0].(object)["name"] != "filter.labels" {
		t.Errorf("a map in a query: %v", parameters)
	}
	if content, _ := at(get, "responses", "200", "content"); content["text/event-stream"] == nil {
		t.Errorf("a stream: %v", content)
	}
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json"} {
		if _, ok := at(doc, "paths", path, "get"); !ok {
			t.Errorf("no %s", path)
		}
	}
}

func TestFinishRefusesWhatIsNoDocument(t *testing.T) {
	t.Parallel()
	for raw, says := range map[string]string{"[": "unexpected", "{}": "components", `{"components":{"schemas":{}}}`: "paths"} {
		if _, err := Finish([]byte(raw)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// TestTheDocumentIsFinished: what is committed went through Finish.
func TestTheDocumentIsFinished(t *testing.T) {
	t.Parallel()
	var doc object
	if err := json.Unmarshal(gen.OpenAPI, &doc); err != nil {
		t.Fatal(err)
	}
	version, _ := doc["openapi"].(string)
	schemes, _ := at(doc, "components", "securitySchemes")
	if !strings.HasPrefix(version, "3.1") || len(schemes) != 2 || doc["security"] == nil {
		t.Errorf("openapi %s, security %v", version, schemes)
	}
	if start, _ := at(doc, "components", "schemas", "pawl.v1.StartRunRequest", "properties"); start["variables"] == nil || start["agent"] == nil {
		t.Errorf("StartRunRequest has %v", start)
	}
}

// TestSchemasHaveOneType: no schema is a union of types, and a number that is written as a
// string has no bounds of a number; bounds are inclusive. Generators for Go, Rust and Java refuse
// all of it.
func TestSchemasHaveOneType(t *testing.T) {
	t.Parallel()
	var doc any
	if err := json.Unmarshal(gen.OpenAPI, &doc); err != nil {
		t.Fatal(err)
	}
	seen := 0
	var walk func(path string, value any)
	walk = func(path string, value any) {
		switch v := value.(type) {
		case object:
			switch kind := v["type"].(type) {
			case []any:
				t.Errorf("%s: types %v, want one", path, kind)
			case string:
				if seen++; kind != "integer" && kind != "number" && (v["minimum"] != nil || v["maximum"] != nil) {
					t.Errorf("%s: a %s with bounds of a number", path, kind)
				}
				if v["exclusiveMinimum"] != nil || v["exclusiveMaximum"] != nil {
					t.Errorf("%s: an exclusive bound", path)
				}
				if v["format"] == "int64" && (kind != "string" || v["pattern"] == nil) {
					t.Errorf("%s: a 64-bit number that is a %s with the pattern %v", path, kind, v["pattern"])
				}
			}
			for name, inner := range v {
				walk(path+"/"+name, inner)
			}
		case []any:
			for i, inner := range v {
				walk(fmt.Sprintf("%s/%d", path, i), inner)
			}
		}
	}
	walk("", doc)
	if seen < 1000 {
		t.Errorf("only %d schemas", seen)
	}
}
