package rules

import (
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// ToolOf returns the settings of a tool, with the defaults filled in.
func ToolOf(g *machine.Graph, name string) machine.Tool {
	tool := g.Tools[name]
	if tool.Agent {
		tool.Timeout = OrDefault(tool.Timeout, machine.DefaultDelegationTimeout)
	}
	tool.Timeout = OrDefault(tool.Timeout, machine.DefaultStepTimeout)
	tool.Attempts = OrDefault(tool.Attempts, 1)
	return tool
}

// PendingSteps returns the numbers of the pending steps, in the order in which they were issued.
func PendingSteps(s *machine.State) []uint32 {
	var steps []uint32
	for i := range s.Steps {
		if s.Steps[i].Status == machine.StepStatusPending {
			steps = append(steps, s.Steps[i].Step)
		}
	}
	return steps
}

// AwaitedSteps returns the pending steps whose answers the turn's executor waits for. It does not
// return steps that the executor answers itself.
func AwaitedSteps(s *machine.State) []uint32 {
	var steps []uint32
	for i := range s.Steps {
		if s.Steps[i].Status == machine.StepStatusPending && s.Steps[i].Model == nil && s.Steps[i].About == nil {
			steps = append(steps, s.Steps[i].Step)
		}
	}
	return steps
}

// OfTurns returns the number of pending steps that were requested by turns.
func OfTurns(s *machine.State) int {
	n := 0
	for i := range s.Steps {
		if s.Steps[i].Status == machine.StepStatusPending && s.Steps[i].About == nil {
			n++
		}
	}
	return n
}

// ToolSteps returns the number of calls of tools and agents that turns requested in this run.
func ToolSteps(s *machine.State) int64 {
	return int64(s.LastStep) - int64(TakenBy(s).Steps) - int64(s.ModelSteps) - int64(s.OwnSteps)
}

// FindStep returns the index of a step of the visit, or -1.
func FindStep(steps []machine.ToolStep, step uint32) int {
	for i := range steps {
		if steps[i].Step == step {
			return i
		}
	}
	return -1
}

// StillOut reports whether steps contains the step p as pending, in the same attempt and with the same
// approval state.
func StillOut(steps []machine.ToolStep, p *machine.ToolStep) bool {
	i := FindStep(steps, p.Step)
	return i >= 0 && steps[i].AwaitingAnswer() && steps[i].Attempt == p.Attempt && steps[i].HeldForApproval() == p.HeldForApproval()
}

// ModelKey returns the key of a round. It has the same form as the keys of tool steps. After a rejected
// answer, the round is requested as another step. The key of that step has a suffix with the number of
// the answer, beginning with ~2.
func ModelKey(s *machine.State, c *machine.RequestModel) string {
	first := roundKey(s, c)
	key := first
	for n := 2; ; n++ {
		i := FindKey(s.Steps, key)
		if i < 0 || s.Steps[i].Model == nil || !s.Steps[i].Model.Rejected {
			return key
		}
		key = first + "~" + strconv.Itoa(n)
	}
}

// IsTurnAnswer reports whether the step is a model's answer in the turn that was not rejected.
func IsTurnAnswer(p *machine.ToolStep, turn uint64) bool {
	return p.Model != nil && p.Status == machine.StepStatusOK && p.TurnSeq == turn && !p.Model.Rejected
}

func roundKey(s *machine.State, c *machine.RequestModel) string {
	if c.Key != "" {
		return c.Key
	}
	key := "model/" + strconv.Itoa(c.Round)
	if turn := KeysOf(s); turn != 0 {
		return strconv.FormatUint(turn, 10) + "." + key
	}
	return key
}

// FindKey returns the index of the step with a key. It returns -1 if there is none.
func FindKey(steps []machine.ToolStep, key string) int {
	return slices.IndexFunc(steps, func(s machine.ToolStep) bool { return s.Key == key })
}

// ValueOf returns a copy of an assignment. For nil it returns the zero value.
func ValueOf(a *machine.Assignment) machine.Assignment {
	if a == nil {
		return machine.Assignment{}
	}
	return *a
}

// StartOf returns a Start with the fields that a fork has in common with a start.
func StartOf(c *machine.Fork) *machine.Start {
	return &machine.Start{
		Namespace: c.Namespace, RunID: c.RunID, EntryOverride: c.EntryOverride, Execution: c.Execution,
		Labels: c.Labels, Limits: c.Limits, MaxWallTime: c.MaxWallTime, MaxSteps: c.MaxSteps,
	}
}

// IsAnswered reports whether the step has an answer for the turn. Steps about other steps never have an
// answer for the turn.
func IsAnswered(p *machine.ToolStep) bool {
	if p.About != nil {
		return false
	}
	return p.Status == machine.StepStatusOK || p.Status == machine.StepStatusError
}

// KeysOf returns the number with which the default keys of the open turn begin. It is 0 in the first
// turn of a visit. The keys of this turn have no such number.
func KeysOf(s *machine.State) uint64 {
	turn := s.Turn
	switch {
	case turn.Keys != 0:
		return turn.Keys
	case turn.Seq == s.VisitSeq:
		return 0
	case s.Forked != nil:
		return turn.Seq + s.Forked.Keys
	}
	return turn.Seq
}

// TakenBy returns the numbers of visits and steps that a fork copied.
func TakenBy(s *machine.State) machine.Forked {
	if s.Forked == nil {
		return machine.Forked{}
	}
	return *s.Forked
}

// BoundOf returns the maximum that a pending step may consume.
func BoundOf(p *machine.ToolStep) machine.Amount {
	if p.Model != nil {
		return machine.Amount{Tokens: p.Model.Tokens, CostMicro: p.Model.CostMicro}
	}
	return p.Bound
}
