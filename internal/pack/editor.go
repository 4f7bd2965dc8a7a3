package pack

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// EditorSchema returns the JSON Schema of packs for editors. It is the newest version of the format
// with descriptions, and the keys of this product under workflow.engine.x_pawl.
func EditorSchema() ([]byte, error) {
	doc, err := readSchema(newestFile)
	if err != nil {
		return nil, err
	}
	union, err := readSchema(unionFile)
	if err != nil {
		return nil, err
	}
	defs := doc["$defs"].(map[string]any)
	own := maps.Clone(union["$defs"].(map[string]any))
	maps.DeleteFunc(own, func(name string, _ any) bool { return !strings.HasPrefix(name, "XPawl") })
	maps.Copy(defs, own)
	engine := defs["WorkflowConfig"].(map[string]any)["properties"].(map[string]any)["engine"].(map[string]any)
	engine["properties"].(map[string]any)["x_pawl"] = map[string]any{"$ref": "#/$defs/XPawl", "description": "Settings of Pawl."}
	doc["$id"] = "https://json-schema.org/pawl/promptpack-" + Newest + "-pawl.json"
	doc["title"] = "PromptPack " + Newest + " with the keys of Pawl"
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("pack: schema for editors: %w", err)
	}
	return append(out, '\n'), nil
}

// SchemaSources returns two schema files as they are written: the newest version of the format, and the format with the keys of this product.
// Both list properties in the order in which the format describes them.
func SchemaSources() (newest, own []byte, err error) {
	if newest, err = schemaFiles.ReadFile(newestFile); err == nil {
		own, err = schemaFiles.ReadFile(unionFile)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("pack: schema sources: %w", err)
	}
	return newest, own, nil
}
