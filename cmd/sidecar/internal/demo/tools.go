package demo

import (
	"context"
	"encoding/json"
	"fmt"
)

// tools are the tools that the executor really runs.
type tools struct {
	workspace *Workspace
	// executed counts the tool calls that were really executed.
	executed int
}

// call runs one tool and returns its result as JSON.
func (t *tools) call(ctx context.Context, tool string, payload []byte) ([]byte, error) {
	t.executed++
	var args struct {
		Path     string `json:"path"`
		Content  string `json:"content"`
		TestPath string `json:"test_path"`
	}
	if err := json.Unmarshal(payload, &args); err != nil {
		return nil, fmt.Errorf("%s: %w", tool, err)
	}
	switch tool {
	case "write_file":
		return t.write(args.Path, args.Content)
	case "read_file":
		content, err := t.workspace.ReadFile(args.Path)
		return marshal(map[string]any{"content": content}, err)
	case "run_tests":
		report, err := t.workspace.RunTests(ctx, args.TestPath)
		return marshal(report, err)
	}
	return nil, fmt.Errorf("no tool %q", tool)
}

// writeResult is the result of the tool write_file.
type writeResult struct {
	Path   string `json:"path"`
	Bytes  int    `json:"bytes"`
	Commit string `json:"commit"`
}

func (t *tools) write(path, content string) ([]byte, error) {
	if err := t.workspace.WriteFile(path, content); err != nil {
		return nil, err
	}
	commit, err := t.workspace.TreeHash()
	return marshal(writeResult{Path: path, Bytes: len(content), Commit: commit}, err)
}

func marshal(v any, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}
