package openapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// object is a JSON object of the document.
type object = map[string]any

// statusRef is the schema of every error.
const statusRef = "#/components/schemas/google.rpc.Status"

// Finish returns the document as the gateway serves it, with indentation and sorted members. It makes these changes:
//
//   - Fields whose comment says "; required" are required.
//   - The members of a oneof are optional fields of their message, and at most one of them is given.
//     The generator nests them where additionalProperties forbids them.
//   - Every operation answers errors as google.rpc.Status.
//   - Streams are newline-delimited JSON, or server-sent events.
//   - StartRun and ForkRun accept variables as real JSON.
//   - A schema has one type: 64-bit numbers are strings, as in answers, and the type null is left out.
//     Generators for typed languages accept only these schemas.
//   - The paths that are no RPC (health, this document) are added.
func Finish(raw []byte) ([]byte, error) {
	var doc object
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	schemas, ok := at(doc, "components", "schemas")
	if !ok {
		return nil, fmt.Errorf("openapi: the document has no components.schemas")
	}
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		finishSchema(name, schemas[name].(object))
	}
	paths, ok := at(doc, "paths")
	if !ok {
		return nil, fmt.Errorf("openapi: the document has no paths")
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		for _, operation := range paths[path].(object) {
			finishOperation(path, operation.(object))
		}
	}
	plainPaths(paths)
	oneType(doc)
	cleanDescriptions(doc)
	return json.MarshalIndent(doc, "", "  ")
}

// at returns the object that a path of member names leads to.
func at(in object, names ...string) (object, bool) {
	for _, name := range names {
		next, ok := in[name].(object)
		if !ok {
			return nil, false
		}
		in = next
	}
	return in, true
}

// finishSchema completes the schema of a message. Only requests are closed against unknown fields, because answers may get new fields.
func finishSchema(name string, schema object) {
	flatten(schema)
	require(schema)
	if !strings.HasSuffix(name, "Request") {
		delete(schema, "additionalProperties")
	}
	if name == "google.protobuf.Any" {
		schema["properties"] = object{"@type": object{"type": "string", "description": "Type of the detail, for example type.googleapis.com/google.rpc.ErrorInfo."}}
		schema["additionalProperties"] = true
	}
	if name == "pawl.v1.StartRunRequest" || name == "pawl.v1.ForkRunRequest" {
		realVariables(schema)
	}
}

// flatten makes one object of the fields of a message and the members of its oneofs.
func flatten(schema object) {
	parts, ok := schema["allOf"].([]any)
	if !ok {
		parts, ok = []any{object{"oneOf": schema["oneOf"]}}, schema["oneOf"] != nil
	}
	if !ok {
		return
	}
	properties := object{}
	if own, ok := at(schema, "properties"); ok {
		properties = own
	}
	for _, part := range parts {
		fields, _ := at(part.(object), "properties")
		maps.Copy(properties, fields)
		members, _ := part.(object)["oneOf"].([]any)
		var names []string
		for _, member := range members {
			fields, _ := at(member.(object), "properties")
			maps.Copy(properties, fields)
			names = append(names, slices.Collect(maps.Keys(fields))...)
		}
		if len(names) > 0 {
			slices.Sort(names)
			schema["description"] = fmt.Sprintf("%v\nAt most one of %s.", schema["description"], strings.Join(names, ", "))
		}
	}
	schema["type"], schema["properties"] = "object", properties
	delete(schema, "allOf")
	delete(schema, "oneOf")
}

// requiredMark matches the mark of a required field in the comments of proto/pawl/v1.
var requiredMark = regexp.MustCompile(`; required\b`)

// require lists the required fields of a message.
func require(schema object) {
	properties, _ := at(schema, "properties")
	var required []string
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if text, _ := properties[name].(object)["description"].(string); requiredMark.MatchString(text) {
			required = append(required, name)
		}
	}
	if len(required) > 0 {
		schema["required"] = required
	}
}

// realVariables adds the form of variables_json that the gateway also accepts: real JSON.
func realVariables(schema object) {
	properties, ok := at(schema, "properties")
	if !ok {
		return
	}
	properties["variables"] = object{
		"type": "object", "title": "variables", "additionalProperties": true,
		"description": "variablesJson as real JSON; one of the two.",
	}
}

// finishOperation completes the parameters and responses of one method of one path.
func finishOperation(path string, operation object) {
	if body, ok := at(operation, "requestBody", "content", "application/json", "schema"); ok {
		flatten(body)
		require(body)
		if title, _ := body["title"].(string); title == "ForkRunRequest" {
			realVariables(body)
		}
	}
	responses, ok := at(operation, "responses")
	if !ok {
		return
	}
	responses["default"] = object{
		"description": "An error; its reason is in the google.rpc.ErrorInfo among the details.",
		"content":     object{"application/json": object{"schema": object{"$ref": statusRef}}},
	}
	if strings.HasSuffix(path, ":stream") {
		stream(responses)
	}
	if parameters, ok := operation["parameters"].([]any); ok {
		operation["parameters"] = mapParameters(parameters)
	}
}

// stream adds a description of both forms of a stream.
func stream(responses object) {
	content, ok := at(responses, "200", "content")
	if !ok {
		return
	}
	one := content["application/json"].(object)["schema"]
	content["application/json"] = object{"schema": object{
		"type": "object", "description": "Newline-delimited JSON, one of these a line.",
		"properties": object{"result": one, "error": object{"$ref": statusRef}},
	}}
	content["text/event-stream"] = object{"schema": object{
		"type": "string",
		"description": "Server-sent events, for those who accept text/event-stream. Records are plain messages, signs of life the event \"heartbeat\", " +
			"the end of the stream \"end\", an error \"fault\" with a google.rpc.Status. id is the cursor: send it as Last-Event-ID to go on.",
	}}
}

// mapParameters describes a map in a query in the form that the gateway reads, name[key]=value.
func mapParameters(parameters []any) []any {
	var out []any
	for _, p := range parameters {
		parameter := p.(object)
		name, _ := parameter["name"].(string)
		switch {
		case strings.HasSuffix(name, ".labels.key"):
			out = append(out, object{
				"name": strings.TrimSuffix(name, ".key"), "in": "query", "style": "deepObject", "explode": true,
				"description": "Labels that the run has, as " + strings.TrimSuffix(name, ".key") + "[KEY]=VALUE.",
				"schema":      object{"type": "object", "additionalProperties": object{"type": "string"}},
			})
		case !strings.HasSuffix(name, ".labels.value"):
			out = append(out, parameter)
		}
	}
	return out
}

// plainPaths adds the paths that the gateway serves besides RPCs. They need no token.
func plainPaths(paths object) {
	open := []any{}
	paths["/healthz"] = object{"get": object{
		"operationId": "Health", "summary": "Whether the process answers, for liveness probes.", "security": open,
		"responses": object{"200": object{"description": "It answers."}},
	}}
	paths["/readyz"] = object{"get": object{
		"operationId": "Ready", "summary": "Whether the sidecar serves, for readiness probes.", "security": open,
		"responses": object{
			"200": object{"description": "It serves."},
			"503": object{"description": "It does not, or not any more."},
		},
	}}
	paths["/openapi.json"] = object{"get": object{
		"operationId": "Describe", "summary": "This document.", "security": open,
		"responses": object{"200": object{"description": "OpenAPI 3.1.", "content": object{"application/json": object{"schema": object{"type": "object"}}}}},
	}}
}

// oneType gives one type to each schema that has several types. If a number is written as a string, its bounds are moved to the
// description.
func oneType(value any) {
	switch v := value.(type) {
	case object:
		if types, ok := v["type"].([]any); ok {
			types = slices.DeleteFunc(types, func(name any) bool { return name == "null" })
			if slices.Contains(types, any("string")) && slices.Contains(types, any("integer")) {
				numberAsString(v)
				types = []any{"string"}
			}
			if len(types) == 1 {
				v["type"] = types[0]
			}
		}
		inclusive(v)
		for _, inner := range v {
			oneType(inner)
		}
	case []any:
		for _, inner := range v {
			oneType(inner)
		}
	}
}

// inclusive writes the bounds of whole numbers in the inclusive form, because some tools, for example ogen, know no other form.
func inclusive(schema object) {
	if schema["type"] != "integer" {
		return
	}
	for exclusive, bound := range map[string]struct {
		name string
		step float64
	}{"exclusiveMinimum": {"minimum", 1}, "exclusiveMaximum": {"maximum", -1}} {
		if limit, ok := schema[exclusive].(float64); ok {
			schema[bound.name] = limit + bound.step
			delete(schema, exclusive)
		}
	}
}

// numberAsString changes the schema of a 64-bit number to a string, as in ProtoJSON.
func numberAsString(schema object) {
	pattern, text := "^-?[0-9]+$", fmt.Sprint(cmp.Or[any](schema["description"], ""))
	if least, ok := schema["minimum"].(float64); ok {
		text += fmt.Sprintf("\nAt least %.0f.", least)
		if least >= 0 {
			pattern = "^[0-9]+$"
		}
	}
	if most, ok := schema["maximum"].(float64); ok {
		text += fmt.Sprintf("\nAt most %.0f.", most)
	}
	schema["pattern"], schema["description"] = pattern, strings.TrimSpace(text)
	delete(schema, "minimum")
	delete(schema, "maximum")
}

// constraint matches a rule that the generator appends to a description as text.
var constraint = regexp.MustCompile(`\n[a-z0-9_.]+ = [^\n]*`)

// cleanDescriptions cleans all descriptions and summaries. It removes the rules that the generator appended, and the
// space at the beginning of lines. Of the description of a Timestamp it keeps only the first paragraph.
func cleanDescriptions(value any) {
	switch v := value.(type) {
	case object:
		for key, inner := range v {
			text, ok := inner.(string)
			if !ok || key != "description" && key != "summary" {
				cleanDescriptions(inner)
				continue
			}
			text = constraint.ReplaceAllString(text, "")
			if first, _, long := strings.Cut(text, "\n\n"); long && strings.HasPrefix(text, "A Timestamp represents") {
				text = first
			}
			v[key] = strings.TrimSpace(strings.ReplaceAll(text, "\n ", "\n"))
		}
	case []any:
		for _, inner := range v {
			cleanDescriptions(inner)
		}
	}
}
