package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// readPack makes the document of the scenario's pack.
func (s *scenario) readPack(root string) error {
	if name, ok := s.Pack.(string); ok {
		content, err := os.ReadFile(filepath.Join(root, "testdata", "packs", name))
		s.document, s.filename = string(content), name
		return err
	}
	value, err := toJSONForm(s.Pack)
	if err != nil {
		return err
	}
	short, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("pack: a mapping or a file name")
	}
	if err := fillPack(short, s.Name); err != nil {
		return err
	}
	content, err := json.Marshal(short)
	s.document, s.filename, s.id = string(content), s.Name+".json", s.Name
	return err
}

// fillPack completes a pack in short: its id is the scenario's name, every state
// without a prompt_task has the prompt of its own name, and prompts and tools get
// the fields that a document must have.
func fillPack(pack map[string]any, name string) error {
	fill(pack, map[string]any{
		"id": name, "name": name, "version": "1.0.0",
		"template_engine": map[string]any{"version": "v1", "syntax": "{{variable}}"},
		"prompts":         map[string]any{},
	})
	prompts, ok := pack["prompts"].(map[string]any)
	if !ok {
		return fmt.Errorf("pack.prompts: a mapping")
	}
	if flow, ok := pack["workflow"].(map[string]any); ok {
		if err := fillWorkflow(flow, prompts); err != nil {
			return err
		}
	}
	tools, _ := pack["tools"].(map[string]any)
	for _, group := range []map[string]any{prompts, tools} {
		for key, value := range group {
			one, _ := value.(map[string]any)
			if one == nil {
				one = map[string]any{}
			}
			fill(one, map[string]any{"name": key, "description": key})
			group[key] = one
		}
	}
	for key, value := range prompts {
		fill(value.(map[string]any), map[string]any{"id": key, "version": "1.0.0", "system_template": "Do " + key + "."})
	}
	for _, value := range tools {
		fill(value.(map[string]any), map[string]any{"parameters": map[string]any{"type": "object", "properties": map[string]any{}}})
	}
	return nil
}

func fillWorkflow(flow, prompts map[string]any) error {
	fill(flow, map[string]any{"version": 2})
	states, ok := flow["states"].(map[string]any)
	if !ok {
		return fmt.Errorf("pack.workflow.states: a mapping")
	}
	for key, value := range states {
		state, _ := value.(map[string]any)
		if state == nil {
			state = map[string]any{}
		}
		states[key] = state
		if state["composition"] != nil {
			continue
		}
		fill(state, map[string]any{"prompt_task": key})
		if task, _ := state["prompt_task"].(string); prompts[task] == nil {
			prompts[task] = map[string]any{}
		}
	}
	return nil
}

// fill sets what is not set.
func fill(into, with map[string]any) {
	for key, value := range with {
		if _, set := into[key]; !set {
			into[key] = value
		}
	}
}
