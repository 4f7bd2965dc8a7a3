package rules

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// What the naive implementation makes of agents and delegations.

// vremote is what a journal says of a delegation's other side, if anything.
type vremote struct {
	machine.Remote
	known bool
}

func (n *naive) write(c machine.WriteOutput) *machine.Error {
	if r := n.refuse(false, c.TurnSeq, c.Attempt, 0); r != nil {
		return r
	}
	if c.Piece.ID == "" {
		return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "OUTPUT_ID_REQUIRED", Field: "piece.id"}
	}
	if len(c.Piece.Parts) == 0 && !c.Piece.Last {
		return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "NO_PARTS", Field: "piece.parts"}
	}
	if r := n.refuseMessages(naivePiece(c.Piece)); r != nil {
		return r
	}
	n.assign(c.Assigned)
	n.add(&machine.OutputWritten{TurnSeq: c.TurnSeq, Attempt: c.Attempt, Piece: c.Piece})
	return nil
}

func naivePiece(p machine.OutputPiece) int64 {
	return naiveBytes(p.Parts) + naiveBytes([]machine.Part{{Text: p.ID, MediaType: p.Name, Filename: p.Description, Metadata: p.Metadata}})
}

func naiveEnvelope(e *machine.Envelope) int64 {
	if e == nil {
		return 0
	}
	all := []machine.Part{{Text: e.MessageID, Filename: e.ContextID, Metadata: e.Metadata}}
	for _, list := range [][]string{e.References, e.Extensions} {
		for _, s := range list {
			all = append(all, machine.Part{Text: s})
		}
	}
	return naiveBytes(all)
}

func (n *naive) noteDelegation(c machine.NoteDelegation, out *verdict) {
	v := n.view()
	step := v.step(c.Step)
	switch {
	case v.ended != nil:
		out.disposition = machine.IgnoredTerminal
		return
	case step == nil || step.status != machine.StepStatusPending || step.held.held || step.attempt != c.Attempt:
		out.disposition = machine.IgnoredStale
		return
	}
	if sent := c.Remote.Sent; c.Remote.TaskID == "" && (sent == machine.SentOnce || sent == machine.SentRepeatable) {
		if over := step.held.expires; v.paused || over != 0 && over <= n.now.At && step.inquiry == 0 {
			out.disposition = machine.IgnoredStale
			return
		}
	}
	known := step.remote
	switch {
	case step.model.is || !n.g.Tools[step.tool].Agent:
		out.refusal = &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "NO_DELEGATION", Field: "step"}
	case known.TaskID != "" && known.TaskID != c.Remote.TaskID:
		out.refusal = &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "DELEGATION_MOVED", Field: "task_id"}
	case c.Remote.Answer != 0 && c.Remote.Answer != known.Answer:
		out.refusal = &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "NO_SUCH_ANSWER", Field: "answer"}
	default:
		out.refusal = n.refuseMessages(naiveBytes(c.Question))
	}
	if out.refusal != nil {
		return
	}
	if known.known && known.Remote == c.Remote {
		out.disposition = machine.IgnoredDuplicate
		return
	}
	n.add(&machine.StepDelegated{Step: c.Step, Tool: step.tool, Attempt: c.Attempt, Remote: c.Remote, Question: c.Question})
}

func (n *naive) answer(c machine.SendInput) *machine.Error {
	step := n.view().step(c.Step)
	if step == nil || step.status != machine.StepStatusPending || step.remote.Asking == machine.AwaitNothing {
		return &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "STEP_NOT_ASKING", Field: "step"}
	}
	if r := n.refuseMessages(naiveBytes(c.Parts) + naiveEnvelope(c.Envelope)); r != nil {
		return r
	}
	n.add(&machine.InputReceived{Parts: c.Parts, MessageID: n.now.ID, Envelope: c.Envelope, Step: c.Step})
	return nil
}

// awaitedOfDelegation is what the first pending delegation asks for.
func (v *view) awaitedOfDelegation() machine.Awaiting {
	for _, s := range v.steps {
		if s.status == machine.StepStatusPending && s.remote.Asking != machine.AwaitNothing {
			return s.remote.Asking
		}
	}
	return machine.AwaitNothing
}

func (n *naive) awaitedInput(v *view) machine.Awaiting {
	switch {
	case v.ended != nil:
		return machine.AwaitNothing
	case v.awaitedOfDelegation() != machine.AwaitNothing:
		return v.awaitedOfDelegation()
	case v.undo != nil:
		return machine.AwaitNothing
	case v.isHeld():
		return machine.AwaitInput
	case v.turn == nil && v.await == machine.AwaitAuth:
		return machine.AwaitAuth
	case v.turn == nil, n.g.States[v.current].Orchestration == machine.External:
		return machine.AwaitInput
	}
	return machine.AwaitNothing
}

// isAllowed: a list has the tool, and those that answer for it.
func (n *naive) isAllowed(name string, list []string) bool {
	tool := n.g.Tools[name]
	for _, needed := range []string{name, tool.Reconcile, tool.Compensate} {
		if needed != "" && !slices.Contains(list, needed) {
			return false
		}
	}
	return true
}

// passedOn is what an agent is held to: every list that holds here.
func (n *naive) passedOn(req machine.StepRequest) *machine.ToolPolicy {
	if !n.g.Tools[req.Tool].Agent || !n.bindsAgents() {
		return nil
	}
	v := n.view()
	operator, own := machine.ToolPolicy{}, machine.ToolPolicy{}
	if req.Policy != nil {
		operator = *req.Policy
	}
	if v.policy != nil {
		own = *v.policy
	}
	out := machine.ToolPolicy{Limited: operator.Limited || own.Limited, Named: operator.Named}
	for _, name := range genTools {
		if n.g.Prompts[n.g.States[v.current].Prompt].Blocklist[name] || slices.Contains(own.Block, name) {
			out.Block = append(out.Block, name)
		}
		if out.Limited && (!operator.Limited || slices.Contains(operator.Allow, name)) && (!own.Limited || slices.Contains(own.Allow, name)) {
			out.Allow = append(out.Allow, name)
		}
	}
	if !out.Limited && len(out.Block) == 0 {
		return nil
	}
	slices.Sort(out.Allow)
	slices.Sort(out.Block)
	return &out
}
