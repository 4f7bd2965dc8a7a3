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
		err := CheckInvariants(s, l.g)
		if err == nil || !strings.Contains(err.Error()+"\n", want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
