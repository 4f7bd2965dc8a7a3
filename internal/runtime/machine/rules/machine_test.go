package rules

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestStepRefusesForeignInputs: mistakes of the host itself are typed errors, too.
func TestStepRefusesForeignInputs(t *testing.T) {
	t.Parallel()
	l := journal(t)
	other := loopGraph()
	other.Digest = "sha256:01"
	smaller := loopGraph()
	delete(smaller.States, "implement")
	broken := loopGraph()
	broken.Entry = "nowhere"
	start := machine.Start{RunID: "R", Execution: machine.Caller}
	tests := []struct {
		name   string
		g      *machine.Graph
		s      *machine.State
		c      machine.Command
		code   machine.Code
		reason string
	}{
		{"no run", l.g, nil, machine.Cancel{}, machine.CodeNotFound, "RUN_NOT_FOUND"},
		{"no command", l.g, l.state, nil, machine.CodeInternal, "UNKNOWN_COMMAND"},
		{"command by pointer", l.g, l.state, &machine.Cancel{}, machine.CodeInternal, "UNKNOWN_COMMAND"},
		{"graph of another pack", other, l.state, machine.Cancel{}, machine.CodeInternal, "GRAPH_MISMATCH"},
		{"graph without the state", smaller, l.state, machine.Cancel{}, machine.CodeInternal, "GRAPH_MISMATCH"},
		{"graph without entry", broken, nil, start, machine.CodeInternal, "GRAPH_INVALID"},
		{"request without one", l.g, l.state, machine.RequestModel{TurnSeq: l.state.Turn.Seq, Attempt: 1, Round: 1}, machine.CodeInvalidArgument, "NO_REQUESTS"},
		{"start without id", l.g, nil, machine.Start{Execution: machine.Caller}, machine.CodeInvalidArgument, "RUN_ID_REQUIRED"},
		{"label twice", l.g, nil, machine.Start{RunID: "R", Execution: machine.Caller, Labels: []machine.Label{{Key: "a"}, {Key: "a"}}}, machine.CodeInvalidArgument, "BAD_LABEL"},
		{"negative wall time", l.g, nil, machine.Start{RunID: "R", Execution: machine.Caller, MaxWallTime: -1}, machine.CodeInvalidArgument, "BAD_LIMIT"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := Step(tt.g, tt.s, machine.Input{At: epoch, Command: tt.c})
			var refusal *machine.Error
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
	r, err := Step(g, nil, machine.Input{At: -int64(time.Hour), Command: machine.Start{RunID: "R", Execution: machine.Caller}})
	if err != nil || r.State.At != 1 || r.State.Deadline != 1+int64(time.Hour) {
		t.Fatalf("at %d, deadline %d, %v", r.State.At, r.State.Deadline, err)
	}
}

func TestStatusNames(t *testing.T) {
	t.Parallel()
	for status, want := range map[machine.Status]string{
		machine.StatusUnset: "UNSET", machine.Running: "RUNNING", machine.Waiting: "WAITING", machine.Completed: "COMPLETED",
		machine.BudgetExhausted: "BUDGET_EXHAUSTED", machine.Escalated: "ESCALATED", machine.Failed: "FAILED", machine.Cancelled: "CANCELLED", machine.Status(99): "UNKNOWN",
	} {
		if got := status.String(); got != want {
			t.Errorf("status %d is called %q, want %q", status, got, want)
		}
	}
}

// TestCheckGraph: the error of CheckGraph names the fault of a graph.
func TestCheckGraph(t *testing.T) {
	t.Parallel()
	if err := machine.CheckGraph(loopGraph()); err != nil {
		t.Fatal(err)
	}
	tests := map[string]func(*machine.Graph){
		`no state "x"`:                           func(g *machine.Graph) { g.Entry = "x" },
		`state "done" is empty`:                  func(g *machine.Graph) { g.States["done"] = nil },
		`calls itself "x"`:                       func(g *machine.Graph) { g.States["plan"].Name = "x" },
		`event "Go": no state "x"`:               func(g *machine.Graph) { g.States["plan"].OnEvent["Go"] = "x" },
		`on_max_visits: no state "x"`:            func(g *machine.Graph) { g.States["plan"].OnMaxVisits = "x" },
		`max_visits -1`:                          func(g *machine.Graph) { g.States["plan"].MaxVisits = -1 },
		`has to be terminal`:                     func(g *machine.Graph) { g.States["plan"].OnEvent = nil },
		`max_iterations: 1 of event "x"`:         func(g *machine.Graph) { g.States["plan"].MaxIterations = map[string]int{"x": 1} },
		`max_iterations: 0 of event "PlanReady"`: func(g *machine.Graph) { g.States["plan"].MaxIterations = map[string]int{"PlanReady": 0} },
		`timeout after 0s`:                       func(g *machine.Graph) { g.States["plan"].Timeout = &machine.Timeout{Event: "PlanReady"} },
		`timeout: event "x" is not declared`:     func(g *machine.Graph) { g.States["plan"].Timeout = &machine.Timeout{After: 1, Event: "x"} },
		`artifact "x" is not in the graph`:       func(g *machine.Graph) { g.States["plan"].Artifacts = []string{"x"} },
		`writes undeclared artifact "x"`:         func(g *machine.Graph) { g.Tools = map[string]machine.Tool{"t": {ResultArtifact: "x"}} },
		`tool "t"`:                               func(g *machine.Graph) { g.Tools = map[string]machine.Tool{"t": {OnError: machine.Retry}} },
		`below zero`:                             func(g *machine.Graph) { g.Budget.MaxTokens = -1 },
	}
	for want, spoil := range tests {
		g := loopGraph()
		spoil(g)
		if err := machine.CheckGraph(g); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
