package machine

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestStepRefusesForeignInputs: a host's own mistakes are typed errors too.
func TestStepRefusesForeignInputs(t *testing.T) {
	t.Parallel()
	l := journal(t)
	other := loopGraph()
	other.Digest = "sha256:01"
	smaller := loopGraph()
	delete(smaller.States, "implement")
	broken := loopGraph()
	broken.Entry = "nowhere"
	start := Start{RunID: "R", Execution: Caller}
	tests := []struct {
		name   string
		g      *Graph
		s      *State
		c      Command
		code   Code
		reason string
	}{
		{"no run", l.g, nil, Cancel{}, CodeNotFound, "RUN_NOT_FOUND"},
		{"no command", l.g, l.state, nil, CodeInternal, "UNKNOWN_COMMAND"},
		{"command by pointer", l.g, l.state, &Cancel{}, CodeInternal, "UNKNOWN_COMMAND"},
		{"graph of another pack", other, l.state, Cancel{}, CodeInternal, "GRAPH_MISMATCH"},
		{"graph without the state", smaller, l.state, Cancel{}, CodeInternal, "GRAPH_MISMATCH"},
		{"graph without entry", broken, nil, start, CodeInternal, "GRAPH_INVALID"},
		{"start without id", l.g, nil, Start{Execution: Caller}, CodeInvalidArgument, "RUN_ID_REQUIRED"},
		{"label twice", l.g, nil, Start{RunID: "R", Execution: Caller, Labels: []Label{{Key: "a"}, {Key: "a"}}}, CodeInvalidArgument, "BAD_LABEL"},
		{"negative wall time", l.g, nil, Start{RunID: "R", Execution: Caller, MaxWallTime: -1}, CodeInvalidArgument, "BAD_LIMIT"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := Step(tt.g, tt.s, Input{At: epoch, Command: tt.c})
			var refusal *Refusal
			if !errors.As(err, &refusal) || refusal.Code != tt.code || refusal.Reason != tt.reason {
				t.Fatalf("got %v, want %s", err, tt.reason)
			}
			if r.Batch != nil || r.State != tt.s {
				t.Fatalf("a refusal changed something: %+v", r)
			}
			if !strings.HasPrefix(err.Error(), tt.reason) {
				t.Errorf("it reads %q", err)
			}
		})
	}
}

// TestTimeBeforeTheEpoch: 0 means "none" in a state, so no time is 0.
func TestTimeBeforeTheEpoch(t *testing.T) {
	t.Parallel()
	g := loopGraph()
	r, err := Step(g, nil, Input{At: -int64(time.Hour), Command: Start{RunID: "R", Execution: Caller}})
	if err != nil || r.State.At != 1 || r.State.Deadline != 1+int64(time.Hour) {
		t.Fatalf("at %d, deadline %d, %v", r.State.At, r.State.Deadline, err)
	}
}

func TestStatusNames(t *testing.T) {
	t.Parallel()
	for status, want := range map[Status]string{
		StatusUnset: "UNSET", Running: "RUNNING", Waiting: "WAITING", Completed: "COMPLETED",
		BudgetExhausted: "BUDGET_EXHAUSTED", Escalated: "ESCALATED", Failed: "FAILED", Cancelled: "CANCELLED", Status(99): "UNKNOWN",
	} {
		if got := status.String(); got != want {
			t.Errorf("status %d is called %q, want %q", status, got, want)
		}
	}
}

// TestCheckGraph: each fault is told, all at once.
func TestCheckGraph(t *testing.T) {
	t.Parallel()
	if err := CheckGraph(loopGraph()); err != nil {
		t.Fatal(err)
	}
	tests := map[string]func(*Graph){
		`no state "x"`:                           func(g *Graph) { g.Entry = "x" },
		`state "done" is empty`:                  func(g *Graph) { g.States["done"] = nil },
		`calls itself "x"`:                       func(g *Graph) { g.States["plan"].Name = "x" },
		`event "Go": no state "x"`:               func(g *Graph) { g.States["plan"].OnEvent["Go"] = "x" },
		`on_max_visits: no state "x"`:            func(g *Graph) { g.States["plan"].OnMaxVisits = "x" },
		`max_visits -1`:                          func(g *Graph) { g.States["plan"].MaxVisits = -1 },
		`has to be terminal`:                     func(g *Graph) { g.States["plan"].OnEvent = nil },
		`max_iterations: 1 of event "x"`:         func(g *Graph) { g.States["plan"].MaxIterations = map[string]int{"x": 1} },
		`max_iterations: 0 of event "PlanReady"`: func(g *Graph) { g.States["plan"].MaxIterations = map[string]int{"PlanReady": 0} },
		`timeout after 0s`:                       func(g *Graph) { g.States["plan"].Timeout = &Timeout{Event: "PlanReady"} },
		`timeout: event "x" is not declared`:     func(g *Graph) { g.States["plan"].Timeout = &Timeout{After: 1, Event: "x"} },
		`artifact "x" is not in the graph`:       func(g *Graph) { g.States["plan"].Artifacts = []string{"x"} },
		`writes undeclared artifact "x"`:         func(g *Graph) { g.Tools = map[string]Tool{"t": {ResultArtifact: "x"}} },
		`tool "t"`:                               func(g *Graph) { g.Tools = map[string]Tool{"t": {OnError: Retry}} },
		`below zero`:                             func(g *Graph) { g.Budget.MaxTokens = -1 },
	}
	for want, spoil := range tests {
		g := loopGraph()
		spoil(g)
		if err := CheckGraph(g); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
