package rules

import (
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// ToolOf is how a tool's steps are run, defaults filled in.
func ToolOf(g *machine.Graph, name string) machine.Tool {
	tool := g.Tools[name]
	if tool.Agent {
		tool.Timeout = OrDefault(tool.Timeout, machine.DefaultDelegationTimeout)
	}
	tool.Timeout = OrDefault(tool.Timeout, machine.DefaultStepTimeout)
	tool.Attempts = OrDefault(tool.Attempts, 1)
	return tool
}

// PendingSteps lists the numbers of the steps that are not answered, in issue order.
func PendingSteps(s *machine.State) []uint32 {
	var steps []uint32
	for i := range s.Steps {
		if s.Steps[i].Status == machine.StepStatusPending {
			steps = append(steps, s.Steps[i].Step)
		}
	}
	return steps
}

// AwaitedSteps counts the steps that others are to answer than the turn's executor.
func AwaitedSteps(s *machine.State) []uint32 {
	var steps []uint32
	for i := range s.Steps {
		if s.Steps[i].Status == machine.StepStatusPending && s.Steps[i].Model == nil && s.Steps[i].About == nil {
			steps = append(steps, s.Steps[i].Step)
		}
	}
	return steps
}

// OfTurns counts the pending steps that turns asked for.
func OfTurns(s *machine.State) int {
	n := 0
	for i := range s.Steps {
		if s.Steps[i].Status == machine.StepStatusPending && s.Steps[i].About == nil {
			n++
		}
	}
	return n
}

// ToolSteps counts the calls of tools and agents that turns asked for in this run.
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

// StillOut: the same execution of the step is pending among steps, and held as it is.
func StillOut(steps []machine.ToolStep, p *machine.ToolStep) bool {
	i := FindStep(steps, p.Step)
	return i >= 0 && steps[i].AwaitingAnswer() && steps[i].Attempt == p.Attempt && steps[i].HeldForApproval() == p.HeldForApproval()
}

// ModelKey is that of the round, made like those of tool steps. Behind a rejected answer the
// round is another step: its key says which answer it asks for, from ~2.
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

// IsTurnAnswer: the step is an answer of a model in the turn that holds.
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

// FindKey is the index of the step with a key; -1 = there is none.
func FindKey(steps []machine.ToolStep, key string) int {
	return slices.IndexFunc(steps, func(s machine.ToolStep) bool { return s.Key == key })
}

// ValueOf is a copy of an assignment, the empty one if there is none.
func ValueOf(a *machine.Assignment) machine.Assignment {
	if a == nil {
		return machine.Assignment{}
	}
	return *a
}

// StartOf is what a fork has in common with a start.
func StartOf(c *machine.Fork) *machine.Start {
	return &machine.Start{
		Namespace: c.Namespace, RunID: c.RunID, EntryOverride: c.EntryOverride, Execution: c.Execution,
		Labels: c.Labels, Limits: c.Limits, MaxWallTime: c.MaxWallTime, MaxSteps: c.MaxSteps,
	}
}

// IsAnswered says whether a step has an answer for the turn, which steps about other steps have not.
func IsAnswered(p *machine.ToolStep) bool {
	if p.About != nil {
		return false
	}
	return p.Status == machine.StepStatusOK || p.Status == machine.StepStatusError
}

// KeysOf is the number that the default keys of the open turn begin with; 0 =
// none: it is the visit's first turn.
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

// TakenBy counts the visits and steps that a fork took over.
func TakenBy(s *machine.State) machine.Forked {
	if s.Forked == nil {
		return machine.Forked{}
	}
	return *s.Forked
}

// BoundOf is what a pending step may consume at most.
func BoundOf(p *machine.ToolStep) machine.Amount {
	if p.Model != nil {
		return machine.Amount{Tokens: p.Model.Tokens, CostMicro: p.Model.CostMicro}
	}
	return p.Bound
}
