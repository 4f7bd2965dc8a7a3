package pack

import (
	"maps"
	"testing"
)

// TestBindingsAreClosedInAnyOrder: the artifact of a sensitive tool is sensitive, and so is every tool that
// writes it, for each order in which the bindings are read.
func TestBindingsAreClosedInAnyOrder(t *testing.T) {
	t.Parallel()
	bindings := map[string]string{"a": "shared", "b": "shared", "c": "own", "d": "shared", "e": "open"}
	for range 100 {
		rules := &SensitiveNames{Tools: map[string]bool{"b": true}, Artifacts: map[string]bool{"own": true}}
		rules.bind(bindings, nil)
		if want := nameSet([]string{"a", "b", "c", "d"}); !maps.Equal(rules.Tools, want) {
			t.Fatalf("sensitive tools: %v, want %v", rules.Tools, want)
		}
		if want := nameSet([]string{"shared", "own"}); !maps.Equal(rules.Artifacts, want) {
			t.Fatalf("sensitive artifacts: %v, want %v", rules.Artifacts, want)
		}
	}
}

// TestWhoIsToldOfACallIsSensitive: the reconcile and compensate tools of a sensitive tool are sensitive,
// because they receive its payload. The same holds for the reconcile tools of those. A tool is also sensitive
// if its reconcile tool is, because it takes over the answer of that tool.
func TestWhoIsToldOfACallIsSensitive(t *testing.T) {
	t.Parallel()
	tools := map[string]ToolLimits{
		"charge": {Reconcile: "status", Compensate: "refund"}, "refund": {Reconcile: "refund_status"},
		"book": {Reconcile: "booked", Compensate: "unbook"}, "open": {Compensate: "undo"}, "undone": {Compensate: "secret_undo"},
	}
	for range 100 {
		rules := &SensitiveNames{Tools: nameSet([]string{"charge", "booked", "secret_undo"}), Artifacts: map[string]bool{}}
		rules.bind(map[string]string{"refund_status": "note"}, tools)
		if want := nameSet([]string{"charge", "status", "refund", "refund_status", "book", "booked", "unbook", "secret_undo"}); !maps.Equal(rules.Tools, want) {
			t.Fatalf("sensitive tools: %v, want %v", rules.Tools, want)
		}
		if !rules.Artifacts["note"] {
			t.Fatal("the artifact of a tool that is told is open")
		}
	}
}
