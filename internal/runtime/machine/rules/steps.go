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

// AwaitedSteps returns the pending steps whose answers the executor of the turn waits for. It leaves
// out model calls, which the executor makes itself, and steps that the sidecar requested.
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

// FindStep returns the index of the step with the given number among the steps of the visit, or -1.
func FindStep(steps []machine.ToolStep, step uint32) int {
	for i := range steps {
		if steps[i].Step == step {
			return i
		}
	}
	return -1
}

// StillOut reports whether the list steps contains the step p as one that awaits an answer, in the same
// attempt and with the same approval state. A step whose outcome is being inquired about does not count.
func StillOut(steps []machine.ToolStep, p *machine.ToolStep) bool {
	i := FindStep(steps, p.Step)
	return i >= 0 && steps[i].AwaitingAnswer() && steps[i].Attempt == p.Attempt && steps[i].HeldForApproval() == p.HeldForApproval()
}

// ModelKey returns the key of the step for a requested model call. If the executor rejected the answers
// of earlier steps for the same call, the key has a suffix with the number of the repetition, beginning
// with ~2.
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

// IsTurnAnswer reports whether the step is a model call that was answered in the given turn, and
// whether its answer was not rejected.
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

// ValueOf returns the assignment that a points to, or the zero value if a is nil.
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

// IsAnswered reports whether the step has an answer that the turn can receive. A step that the sidecar
// itself requested has none.
func IsAnswered(p *machine.ToolStep) bool {
	if p.About != nil {
		return false
	}
	return p.Status == machine.StepStatusOK || p.Status == machine.StepStatusError
}

// KeysOf returns the number with which the default keys of steps in the open turn begin. It is 0 in the
// first turn of a visit, whose keys have none.
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

// TakenBy returns the numbers of visits and steps that the run copied when it was forked. They are 0
// for a run that is no fork.
func TakenBy(s *machine.State) machine.Forked {
	if s.Forked == nil {
		return machine.Forked{}
	}
	return *s.Forked
}

// BoundOf returns the maximum that a pending step may consume: tokens, cost and, for an agent, tool calls.
func BoundOf(p *machine.ToolStep) machine.Amount {
	if p.Model != nil {
		return machine.Amount{Tokens: p.Model.Tokens, CostMicro: p.Model.CostMicro}
	}
	return p.Bound
}

// AttemptsOf returns how many attempts a turn of the graph's runs may have.
func AttemptsOf(g *machine.Graph) int { return OrDefault(g.Retry.MaxAttempts, machine.DefaultAttempts) }

// ModelCalls returns the graph's settings for model calls, with the defaults filled in.
func ModelCalls(g *machine.Graph) machine.Calls {
	var c machine.Calls
	if g.ModelCalls != nil {
		c = *g.ModelCalls
	}
	c.Timeout = OrDefault(c.Timeout, machine.DefaultModelTimeout)
	c.Retry.MaxAttempts = OrDefault(c.Retry.MaxAttempts, machine.DefaultModelAttempts)
	return c
}
