package machine

// What the naive implementation makes of agents and delegations.

// vremote is what a journal says of a delegation's other side, if anything.
type vremote struct {
	Remote
	known bool
}

func (n *naive) write(c WriteOutput) *Refusal {
	if r := n.refuse(false, c.TurnSeq, c.Attempt, 0); r != nil {
		return r
	}
	if c.Piece.ID == "" {
		return &Refusal{Code: CodeInvalidArgument, Reason: "OUTPUT_ID_REQUIRED", Field: "piece.id"}
	}
	if len(c.Piece.Parts) == 0 && !c.Piece.Last {
		return &Refusal{Code: CodeInvalidArgument, Reason: "NO_PARTS", Field: "piece.parts"}
	}
	if r := n.refuseMessages(naivePiece(c.Piece)); r != nil {
		return r
	}
	n.assign(c.Assigned)
	n.add(&OutputWritten{TurnSeq: c.TurnSeq, Attempt: c.Attempt, Piece: c.Piece})
	return nil
}

func naivePiece(p OutputPiece) int64 {
	return naiveBytes(p.Parts) + naiveBytes([]Part{{Text: p.ID, MediaType: p.Name, Filename: p.Description, Metadata: p.Metadata}})
}

func naiveEnvelope(e *Envelope) int64 {
	if e == nil {
		return 0
	}
	all := []Part{{Text: e.MessageID, Filename: e.ContextID, Metadata: e.Metadata}}
	for _, list := range [][]string{e.References, e.Extensions} {
		for _, s := range list {
			all = append(all, Part{Text: s})
		}
	}
	return naiveBytes(all)
}

func (n *naive) note(c NoteDelegation, out *verdict) {
	v := n.view()
	step := v.step(c.Step)
	switch {
	case v.ended != nil:
		out.disposition = IgnoredTerminal
		return
	case step == nil || step.status != StepStatusPending || step.attempt != c.Attempt:
		out.disposition = IgnoredStale
		return
	}
	known := step.remote
	switch {
	case !n.g.Tools[step.tool].Agent:
		out.refusal = &Refusal{Code: CodeFailedPrecondition, Reason: "NO_DELEGATION", Field: "step"}
	case known.TaskID != "" && known.TaskID != c.Remote.TaskID:
		out.refusal = &Refusal{Code: CodeFailedPrecondition, Reason: "DELEGATION_MOVED", Field: "task_id"}
	case c.Remote.Answer != 0 && c.Remote.Answer != known.Answer:
		out.refusal = &Refusal{Code: CodeFailedPrecondition, Reason: "NO_SUCH_ANSWER", Field: "answer"}
	default:
		out.refusal = n.refuseMessages(naiveBytes(c.Question))
	}
	if out.refusal != nil {
		return
	}
	if known.known && known.Remote == c.Remote {
		out.disposition = IgnoredDuplicate
		return
	}
	n.add(&StepDelegated{Step: c.Step, Tool: step.tool, Attempt: c.Attempt, Remote: c.Remote, Question: c.Question})
}

func (n *naive) answer(c SendInput) *Refusal {
	step := n.view().step(c.Step)
	if step == nil || step.status != StepStatusPending || step.remote.Asking == AwaitNothing {
		return &Refusal{Code: CodeFailedPrecondition, Reason: "STEP_NOT_ASKING", Field: "step"}
	}
	if r := n.refuseMessages(naiveBytes(c.Parts) + naiveEnvelope(c.Envelope)); r != nil {
		return r
	}
	n.add(&InputReceived{Parts: c.Parts, MessageID: n.now.ID, Envelope: c.Envelope, Step: c.Step})
	return nil
}

// asks is what the first pending delegation asks for.
func (v *view) asks() Awaiting {
	for _, s := range v.steps {
		if s.status == StepStatusPending && s.remote.Asking != AwaitNothing {
			return s.remote.Asking
		}
	}
	return AwaitNothing
}

func (n *naive) awaiting(v *view) Awaiting {
	switch {
	case v.ended != nil:
		return AwaitNothing
	case v.asks() != AwaitNothing:
		return v.asks()
	case v.turn == nil && v.await == AwaitAuth:
		return AwaitAuth
	case v.turn == nil, n.g.States[v.current].Orchestration == External:
		return AwaitInput
	}
	return AwaitNothing
}
