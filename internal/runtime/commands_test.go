package runtime_test

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// TestToolsKeepTheOrderOfThePack: a model sees its tools as the author listed
// them, blocked and repeated ones left out.
func TestToolsKeepTheOrderOfThePack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.register("", strings.NewReplacer(
		`"version": "1.0.0"`, `"version": "2.0.0"`,
		`"tools": ["run_tests", "write_file"]`, `"tools": ["write_file", "extra", "write_file", "run_tests"]`,
		`"max_tool_calls_per_turn": 50`, `"blocklist": ["extra"]`,
		`"tools": {`, `"tools": {"extra": {"name": "extra", "description": "X"},`,
	).Replace(loopPack))
	run := r.start("s1")
	turn, err := r.GetTurn(context.Background(), ref(run.RunID, everyone))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range turn.Tools {
		names = append(names, tool.Name)
	}
	if !slices.Equal(names, []string{"write_file", "run_tests"}) {
		t.Fatalf("tools %q", names)
	}
}
