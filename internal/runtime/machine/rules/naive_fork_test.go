package rules

import (
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// This file has the part of the naive implementation for a fork. The fork is all that
// it knows of the source run.

func (n *naive) fork(c machine.Fork) *machine.Error {
	if c.From.Undo != nil {
		return &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "FORK_COMPENSATING", Field: "at_seq", Seq: c.From.Seq}
	}
	origin := &machine.Origin{RunID: c.From.RunID, Seq: c.Seq, State: c.From, Conversations: c.Conversations, Artifacts: c.Values}
	if c.ReuseSteps {
		origin.Steps = c.Steps
	}
	n.add(origin)
	for _, q := range c.Queued {
		n.add(&machine.InputReceived{Parts: q.Parts, MessageID: q.MessageID, Queued: true})
	}
	return nil
}

// begun returns what a run began with, as a Start.
func begun(c machine.Command) (machine.Start, bool) {
	switch c := c.(type) {
	case machine.Start:
		return c, true
	case machine.Fork:
		return machine.Start{RunID: c.RunID, Execution: c.Execution, Conversation: c.From.Conversation, Limits: c.Limits, MaxWallTime: c.MaxWallTime, MaxSteps: c.MaxSteps}, true
	}
	return machine.Start{}, false
}

func (n *naive) readOrigin(v *view, c machine.Fork, r machine.Record) {
	from := c.From
	v.current, v.visitSeq = from.Current, r.Seq
	was := shownBy(from)
	maps.Copy(v.visits, was["visits"].(map[string]int))
	maps.Copy(v.edges, was["edges"].(map[string]int))
	for name, a := range was["artifacts"].(map[string]vartifact) {
		a.seq = r.Seq
		v.artifacts[name] = a
	}
	for _, talk := range c.Conversations {
		for _, m := range talk.Messages {
			v.bytes += naiveMessage(m)
		}
		v.rows = append(v.rows, machine.MessageRow{State: talk.State, Seq: r.Seq})
		v.windows[talk.State] = [2]uint64{0, 1}
	}
	if node := n.g.States[v.current]; node.Timeout != nil && !node.Terminal {
		v.timeoutAt = r.At + int64(node.Timeout.After)
	}
	v.await = from.Awaiting
	for _, s := range stepFacts(from) { // the turn itself does not wait for the answer of an agent or for the decision on a held call
		if s.status == machine.StepStatusPending && (s.remote.Asking != machine.AwaitNothing || s.held.held) || from.Undo != nil {
			v.await = from.TurnAwaiting
		}
	}
	if from.Turn != nil {
		v.turn = &vturn{seq: r.Seq, attempt: 1}
	}
	if c.ReuseSteps {
		n.takeSteps(v, c, r.Seq)
	}
}

// answeredSteps returns the steps that a fork may take over.
func answeredSteps(from *machine.State) []vstep {
	return slices.DeleteFunc(stepFacts(from), func(s vstep) bool {
		return s.about.Role != 0 || s.status == machine.StepStatusPending || s.status == machine.StepStatusCancelled
	})
}

// takeSteps takes over the answered steps and numbers them again from 1. Only steps of tools
// count as calls of the turn.
func (n *naive) takeSteps(v *view, c machine.Fork, seq uint64) {
	numbers := map[uint32]uint32{}
	for _, step := range answeredSteps(c.From) {
		v.lastStep++
		numbers[step.n] = v.lastStep
		if v.turn != nil && step.turn == c.From.Turn.Seq && !step.model.is {
			v.turn.calls++
		}
		taken := c.Steps[v.lastStep-1]
		step.n, step.turn, step.asked, step.answer = v.lastStep, seq, seq, seq
		step.held, step.effect, step.outcomeUnknown, step.payloadAt = vheld{}, [32]byte{}, false, 0
		step.call.Step = numbers[step.call.Step]
		if step.model = (vmodel{is: step.model.is, calls: step.model.calls, rejected: step.model.rejected}); !step.model.is {
			step.attempt = min(step.attempt, max(1, n.g.Tools[step.tool].Attempts))
			step.conversation = "error " + taken.Error.Code + "/" + taken.Error.Message
			if step.status == machine.StepStatusOK {
				step.conversation = "ok " + string(taken.Result)
			}
		}
		v.steps = append(v.steps, step)
	}
	v.keys = c.From.Seq
	if c.From.Forked != nil {
		v.keys += c.From.Forked.Keys
	}
	if turn := c.From.Turn; turn != nil && turn.Keys != 0 {
		v.turn.keys = turn.Keys
	} else if turn != nil && turn.Seq != c.From.VisitSeq {
		v.turn.keys = turn.Seq
		if c.From.Forked != nil {
			v.turn.keys += c.From.Forked.Keys
		}
	}
}
