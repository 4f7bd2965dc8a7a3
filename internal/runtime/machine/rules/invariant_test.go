package rules

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestCheckInvariants: a state that was tampered with is found out.
func TestCheckInvariants(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*machine.State){
		"not in the graph":            func(s *machine.State) { s.Current = "x" },
		"visits add up":               func(s *machine.State) { s.TotalVisits++ },
		"transitions":                 func(s *machine.State) { s.Transitions++ },
		"visits[0]":                   func(s *machine.State) { s.Visits[0].N = 0 },
		"edges[0]":                    func(s *machine.State) { s.Edges[0].Event = "x" },
		"edges followed":              func(s *machine.State) { s.Edges[0].N = 9 },
		"visit_seq":                   func(s *machine.State) { s.VisitSeq = s.Seq + 1 },
		"tool calls":                  func(s *machine.State) { s.LastStep = 1 },
		"created at":                  func(s *machine.State) { s.CreatedAt = s.At + 1 },
		"status WAITING":              func(s *machine.State) { s.Status = machine.Waiting },
		"with reason":                 func(s *machine.State) { s.Reason = "x" },
		"an ended run has a turn":     func(s *machine.State) { s.Status, s.Reason = machine.Failed, "x" },
		"queued without an open turn": func(s *machine.State) { s.Turn, s.Queue = nil, []uint64{1} },
		"queue [2 1]":                 func(s *machine.State) { s.Queue = []uint64{2, 1} },
		"outside of visit":            func(s *machine.State) { s.Turn.Seq = 1 },
		"attempt 9":                   func(s *machine.State) { s.Turn.Attempt = 9 },
		"suspended without":           func(s *machine.State) { s.Turn.Suspended = true },
		"is not as declared":          func(s *machine.State) { s.Artifacts[0].Mode = machine.Append },
		"artifacts hold":              func(s *machine.State) { s.ArtifactBytes++ },
		"conversation":                func(s *machine.State) { s.Conversations[0].From = 9 },
		"messages hold":               func(s *machine.State) { s.MessageBytes = -1 },
		"the wall clock both":         func(s *machine.State) { s.WallLeft = 1 },
		"the wall clock is lost":      func(s *machine.State) { s.Deadline = 0 },
		"passed at":                   func(s *machine.State) { s.At = s.Deadline },
		"state timeout":               func(s *machine.State) { s.StateTimeoutAt = 5 },
		"with deadline": func(s *machine.State) {
			s.Steps = []machine.ToolStep{{Step: 1, Attempt: 1, Status: machine.StepStatusPending}}
		},
		"two steps with key": func(s *machine.State) {
			s.LastStep, s.Steps = 2, []machine.ToolStep{{Step: 1, Key: "k"}, {Step: 2, Key: "k"}}
		},
		"step 1 after 1":  func(s *machine.State) { s.LastStep, s.Steps = 2, []machine.ToolStep{{Step: 1}, {Step: 1}} },
		"transitions\n":   func(s *machine.State) { s.Limits.MaxTransitions = 1 },
		"2 inputs queued": func(s *machine.State) { s.Limits.MaxQueuedInputs, s.Queue = 1, []uint64{1, 2} },
		"step 1 status 2 with answer 0": func(s *machine.State) {
			s.LastStep, s.Steps = 1, []machine.ToolStep{{Step: 1, Status: machine.StepStatusOK}}
		},
		"the wall clock stands in":        func(s *machine.State) { s.WallLeft, s.Deadline = 1, 0 },
		`"test_report" is not as declare`: func(s *machine.State) { s.Artifacts[1].Type = "text/plain" },
	}
	for want, spoil := range tests {
		l := journal(t)
		s := clone(l.state)
		spoil(s)
		err := CheckState(s, l.g)
		if err == nil || !strings.Contains(err.Error()+"\n", want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestModelInvariants: a state whose calls of models were tampered with is found out, and so
// is a change that its records do not tell.
func TestModelInvariants(t *testing.T) {
	t.Parallel()
	l, before := answeredModel(t)
	for want, spoil := range map[string]func(*machine.State){
		"is answered and holds":      func(s *machine.State) { s.Steps[0].Model.Tokens = 5 },
		"of a model and of an agent": func(s *machine.State) { s.Steps[0].Delegation = true },
		"no answer of a model":       func(s *machine.State) { s.Steps[1].Call.Step = 3 },
		"is call 7 of step 1":        func(s *machine.State) { s.Steps[1].Call.Index = 7 },
		`with the key "2"`:           func(s *machine.State) { s.Steps[1].Key = "2" },
		"not the open turn's":        func(s *machine.State) { s.Steps[2].Model.TurnAttempt = 2 },
		"after 3 failures":           func(s *machine.State) { s.Steps[2].Model.Failed = 3 },
		"begins at":                  func(s *machine.State) { s.Steps[2].Model.NotBefore = s.Steps[2].Deadline },
		"without an answer":          func(s *machine.State) { s.Steps[2].Model.Calls = 1 },
		"calls of models among":      func(s *machine.State) { s.ModelSteps = 9 },
		"texts are known":            func(s *machine.State) { s.Texts = make([]machine.TextRef, 33) },
	} {
		s := clone(l.state)
		spoil(s)
		if err := CheckState(s, l.g); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	records := l.entries[len(l.entries)-1].Records
	for want, spoil := range map[string]func(*machine.State){
		"tokens, then":           func(s *machine.State) { s.Tokens++ },
		"micro-dollars, then":    func(s *machine.State) { s.CostMicro++ },
		"tool calls, then":       func(s *machine.State) { s.ToolCalls++ },
		"calls of models, then":  func(s *machine.State) { s.ModelSteps++ },
		"is gone":                func(s *machine.State) { s.Steps = s.Steps[:1] },
		"step 1 was answered":    func(s *machine.State) { s.Steps[0].Status = machine.StepStatusPending },
		"step 1 said":            func(s *machine.State) { s.Steps[0].Model.Calls = 2 },
		"step 1 was {Step:1 Key": func(s *machine.State) { s.Steps[0].Key = "x" },
	} {
		s := clone(l.state)
		spoil(s)
		if err := CheckChange(before, s, records); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// answeredModel is a run with an answered call of a model, a tool that it asked for, and a
// call that is pending since the last input; before is its state before that.
func answeredModel(t *testing.T) (l *ledger, before *machine.State) {
	t.Helper()
	g, err := parseGraph("entry a\nstate a: Go->a\ntool t0")
	if err != nil {
		t.Fatal(err)
	}
	l = newLedger(t, g)
	for _, c := range []machine.Command{
		machine.Start{RunID: "R", Execution: machine.Caller},
		machine.RequestModel{TurnSeq: 1, Attempt: 1, Round: 1, Model: &machine.ModelRequest{Model: "m"}},
		machine.AnswerModel{TurnSeq: 1, TurnAttempt: 1, Step: 1, Attempt: 1, Answer: &machine.ModelAnswer{Calls: make([]machine.ModelCall, 1)}},
		machine.RequestSteps{TurnSeq: 1, Attempt: 1, Requests: []machine.StepRequest{{Tool: "t0", Call: &machine.CallRef{Step: 1}}}},
		machine.RequestModel{TurnSeq: 1, Attempt: 1, Round: 2, Model: &machine.ModelRequest{Model: "m"}},
	} {
		before = l.state
		if _, err := l.apply(machine.Input{At: epoch, Principal: "app", Command: c, Semantics: machine.Current}); err != nil {
			t.Fatalf("%T: %v", c, err)
		}
	}
	return l, before
}
