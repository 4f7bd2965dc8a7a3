package rules

import (
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// A run that has 2 of its 4 tool calls left lends an agent 2 of them and no more.
func TestLeasedToolCallsAreBounded(t *testing.T) {
	s := &machine.State{ToolCalls: 2, Account: &machine.Account{Leased: true, Limit: machine.Amount{ToolCalls: 4}}}
	x := &txn{g: &machine.Graph{}, s: s}
	for calls, want := range map[int64]string{0: "", 2: "", 3: "max_tool_calls"} {
		if got := x.refusedBy(-1, machine.Amount{ToolCalls: calls}); got != want {
			t.Errorf("a lease of %d tool calls is refused by %q, want %q", calls, got, want)
		}
	}
}

// A step whose attempt is in doubt, or that calls a model, is never taken for one that did nothing.
func TestDoubtIsNotUnsent(t *testing.T) {
	x := &txn{g: &machine.Graph{}, s: &machine.State{}}
	for name, step := range map[string]*machine.ToolStep{"in doubt": {Doubt: true}, "a model's": {Model: &machine.ModelStep{}}} {
		if x.unsent(step) {
			t.Errorf("a step that is %s is taken for one that was not sent", name)
		}
	}
	if !x.unsent(&machine.ToolStep{}) {
		t.Error("a step that this input asks for is taken for one that was sent")
	}
}

// Requests behind the refused one are told that the run ends, also while its effects are still being undone.
func TestRequestsWhileUndoing(t *testing.T) {
	x := &txn{g: &machine.Graph{}, s: &machine.State{Undo: &machine.Undo{}}}
	if got := x.notMade().Code; got != "RUN_TERMINAL" {
		t.Errorf("code %s, want RUN_TERMINAL", got)
	}
}

func wantRefusal(t *testing.T, err error, reason string) {
	t.Helper()
	var r *machine.Refusal
	if !errors.As(err, &r) || r.Reason != reason {
		t.Errorf("got %v, want a refusal %s", err, reason)
	}
}

// A fork without the value of an artifact, or with a conversation of no state, is refused.
func TestForkWithoutItsParts(t *testing.T) {
	x := &txn{g: &machine.Graph{}, s: &machine.State{}}
	wantRefusal(t, x.takeArtifacts(&machine.Fork{From: &machine.State{Artifacts: []machine.ArtifactHead{{Name: "plan"}}}}, &machine.Origin{}, 1), "FORK_INVALID")
	wantRefusal(t, x.takeMessages(&machine.Fork{Conversations: []machine.Talk{{State: "gone"}}}, 1), "FORK_INVALID")
}

// An imported run takes no input.
func TestImportedTakesNoInput(t *testing.T) {
	g := &machine.Graph{Digest: "d", States: map[string]*machine.Node{"a": {}}}
	_, err := Step(g, &machine.State{Digest: "d", Current: "a", Imported: true}, machine.Input{Command: machine.Cancel{}})
	wantRefusal(t, err, "IMPORTED")
}
