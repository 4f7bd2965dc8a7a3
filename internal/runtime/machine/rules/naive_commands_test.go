package rules

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

func (n *naive) emit(c machine.EmitEvent) *machine.Error {
	if r := n.refuse(true, 0, 0, c.ExpectedSeq); r != nil {
		return r
	}
	if n.view().turn == nil && !c.Outside {
		return &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "TURN_STALE", Field: "turn_seq"}
	}
	if r := n.refuseEvent(c.Event); r != nil {
		return r
	}
	if r := n.refuseWrites(c.Artifacts); r != nil {
		return r
	}
	if c.Outside {
		n.abandon("outside_event")
	} else {
		n.assign(c.Assigned)
	}
	if c.Violation != nil {
		n.rejectTurn(c.Violation, machine.Usage{}, n.view().lastSpoken())
		return nil
	}
	n.follow(c.Event, machine.CauseEvent, c.Artifacts)
	return nil
}

// rejectTurn is a turn that a validator of its prompt refuses.
func (n *naive) rejectTurn(v *machine.Violation, used machine.Usage, step uint32) {
	said := "validator " + v.ID + ": " + v.Reason
	failed := n.failed(machine.Fault{Code: "VALIDATOR_TRIGGERED", Message: said}, true, used, "validator:"+v.ID, step)
	failed.Violation = v
	if failed.Next != 0 && failed.Rejected == 0 {
		n.add(&machine.NoticeAdded{Code: "VALIDATOR_TRIGGERED", Text: "What you said here before was refused: " + said + ". Say something else."})
	}
}

// lastSpoken is the last answer of a model in the open turn; 0 = none.
func (v *view) lastSpoken() (step uint32) {
	for i := range v.steps {
		if s := &v.steps[i]; s.isAnswerOf(v.turn.seq) {
			step = max(step, s.n)
		}
	}
	return step
}

func (n *naive) abandon(why string) {
	if turn := n.view().turn; turn != nil {
		n.add(&machine.TurnAbandoned{TurnSeq: turn.seq, Attempt: turn.attempt, Why: why})
	}
}

func (n *naive) follow(event string, cause machine.Cause, writes []machine.ArtifactWrite) {
	if reason := n.exceededBudget(); reason != "" {
		n.endAt(event, n.g.States[n.view().current].OnEvent[event], machine.BudgetExhausted, reason, nil, writes)
		return
	}
	from := n.g.States[n.view().current]
	if n.g.CompensateOn[event] && n.beginUndo(machine.CompensationStarted{Event: event, Intended: from.OnEvent[event], Artifacts: writes}) {
		return
	}
	n.enter(from, event, from.OnEvent[event], cause, writes)
}

func (n *naive) complete(c machine.CompleteTurn) *machine.Error {
	if r := n.refuse(false, c.TurnSeq, c.Attempt, c.ExpectedSeq); r != nil {
		return r
	}
	if c.Outside && c.Event != "" {
		return &machine.Error{Code: machine.CodePermissionDenied, Reason: "EVENT_NOT_ALLOWED", Field: "event"}
	}
	if r := refuseUsage(c.Usage); r != nil {
		return r
	}
	used, r := n.addPrice(c.Usage)
	if r != nil {
		return r
	}
	if c.Event != "" && c.Await != machine.AwaitNothing {
		return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "AWAIT_WITH_EVENT", Field: "awaiting"}
	}
	if c.Event != "" {
		if r := n.refuseEvent(c.Event); r != nil {
			return r
		}
	}
	said, r := n.namedAnswer(c)
	if r != nil {
		return r
	}
	if r := n.refuseWrites(c.Artifacts); r != nil {
		return r
	}
	size := naiveBytes(c.Output)
	for _, m := range c.Messages {
		size += naiveMessage(m)
	}
	if r := n.refuseMessages(size); r != nil {
		return r
	}
	n.assign(c.Assigned)
	if c.Violation != nil {
		n.rejectTurn(c.Violation, used, n.view().lastSpoken())
		return nil
	}
	done := machine.TurnCompleted{TurnSeq: c.TurnSeq, Attempt: c.Attempt, Output: c.Output, Messages: c.Messages, Usage: used, Event: c.Event, Await: c.Await, Reply: c.Reply, ConversationThrough: said}
	n.add(&done)
	for _, step := range n.view().steps {
		if step.model.is && step.status == machine.StepStatusPending {
			n.add(&machine.StepCancelled{Step: step.n, Tool: step.tool, Why: "turn_over", Kind: machine.KindModel})
		}
	}
	terminal := n.g.States[n.view().current].Terminal && c.Await == machine.AwaitNothing
	switch reason := n.exceededBudget(); {
	case reason != "":
		node := n.g.States[n.view().current]
		target := ""
		if c.Event != "" {
			target = node.OnEvent[c.Event]
		}
		n.endAt(c.Event, target, machine.BudgetExhausted, reason, nil, c.Artifacts)
	case terminal && n.g.States[n.view().current].Outcome == machine.Failed:
		n.end(machine.Failed, "outcome:"+n.view().current, nil, c.Artifacts)
	case terminal:
		n.end(machine.Completed, "completed", nil, c.Artifacts)
	case c.Event != "":
		n.follow(c.Event, machine.CauseEvent, c.Artifacts)
	default:
		done.Artifacts = c.Artifacts
		if v := n.view(); len(v.dueMessages()) > 0 {
			n.openFurtherTurn()
		}
	}
	return nil
}

func refuseUsage(u machine.Usage) *machine.Error {
	refusal := &machine.Error{Code: machine.CodeInvalidArgument, Reason: "BAD_USAGE"}
	switch {
	case min(u.InputTokens, u.OutputTokens, u.CostMicro, int64(u.ToolCalls), u.CachedTokens, u.ReasoningTokens) < 0:
		refusal.Reason, refusal.Field = "NEGATIVE_USAGE", "usage"
	case u.CachedTokens > u.InputTokens:
		refusal.Field, refusal.Limit, refusal.Got = "usage.cached_tokens", u.InputTokens, u.CachedTokens
	case u.ReasoningTokens > u.OutputTokens:
		refusal.Field, refusal.Limit, refusal.Got = "usage.reasoning_tokens", u.OutputTokens, u.ReasoningTokens
	default:
		return nil
	}
	return refusal
}

// addPrice counts a token at a time, in millionths of a micro-dollar.
func (n *naive) addPrice(u machine.Usage) (machine.Usage, *machine.Error) {
	p, known := n.g.Prices[u.Model]
	if !known && u.Price != nil {
		p, known = *u.Price, true
	}
	if u.Model != "" && known {
		var sum int64
		for i := range u.InputTokens {
			sum += map[bool]int64{true: p.Cached, false: p.Input}[i < u.CachedTokens]
		}
		for i := range u.OutputTokens {
			sum += map[bool]int64{true: p.Reasoning, false: p.Output}[i < u.ReasoningTokens]
		}
		for u.CostMicro = 0; u.CostMicro*1_000_000 < sum; {
			u.CostMicro++
		}
		return u, nil
	}
	if n.now.Semantics >= 3 && n.view().limit.CostMicro > 0 && u.CostMicro == 0 && u.InputTokens+u.OutputTokens > 0 {
		return u, &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "MODEL_UNPRICED", Field: "usage.model"}
	}
	return u, nil
}

func (n *naive) input(c machine.SendInput) *machine.Error {
	if r := n.refuse(false, 0, 0, c.ExpectedSeq); r != nil {
		return r
	}
	if len(c.Parts) == 0 {
		return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "NO_PARTS", Field: "parts"}
	}
	if c.Step != 0 {
		return n.answer(c)
	}
	if r := n.refuseMessages(naiveBytes(c.Parts) + naiveEnvelope(c.Envelope)); r != nil {
		return r
	}
	v, most := n.view(), n.start().Limits.MaxQueuedInputs
	if v.turn != nil && len(v.queue) >= most {
		return &machine.Error{Code: machine.CodeResourceExhausted, Reason: "INPUT_QUEUE_FULL", Field: "parts", Limit: int64(most), Got: int64(most) + 1}
	}
	n.add(&machine.InputReceived{Parts: c.Parts, MessageID: n.now.ID, Queued: v.turn != nil, Envelope: c.Envelope})
	if v.turn == nil {
		n.openFurtherTurn()
	}
	return nil
}

func (n *naive) set(c machine.SetArtifacts) *machine.Error {
	if r := n.refuse(false, 0, 0, c.ExpectedSeq); r != nil {
		return r
	}
	if len(c.Artifacts) == 0 {
		return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "NO_ARTIFACTS", Field: "artifacts"}
	}
	if r := n.refuseWrites(c.Artifacts); r != nil {
		return r
	}
	n.add(&machine.ArtifactsSet{Artifacts: c.Artifacts})
	return nil
}

func (n *naive) fail(c machine.FailTurn, out *verdict) {
	if out.refusal = n.refuse(false, 0, 0, 0); out.refusal != nil {
		return
	}
	turn := n.view().turn
	if turn != nil && turn.seq == c.TurnSeq && turn.attempt == c.Attempt+1 && turn.failure == n.now.BodyHash && turn.failure != [32]byte{} {
		out.disposition = machine.IgnoredDuplicate
		return
	}
	if out.refusal = n.refuse(false, c.TurnSeq, c.Attempt, 0); out.refusal != nil {
		return
	}
	if out.refusal = refuseUsage(c.Usage); out.refusal != nil {
		return
	}
	used, refusal := n.addPrice(c.Usage)
	if out.refusal = refusal; out.refusal != nil {
		return
	}
	if c.Reject && c.Retryable {
		out.refusal = &machine.Error{Code: machine.CodeInvalidArgument, Reason: "REJECT_RETRYABLE", Field: "retryable"}
		return
	}
	if step := n.view().step(c.Rejected); c.Rejected != 0 && (step == nil || !step.isAnswerOf(step.turn)) {
		out.refusal = &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "STEP_NOT_ANSWERED", Field: "rejected_step"}
		return
	}
	n.assign(c.Assigned)
	reason := "turn_failed"
	if c.Reject {
		reason = "rejected"
	}
	n.failed(c.Error, c.Retryable, used, reason, c.Rejected)
}

// failed records a failed attempt. Whether the usage passes a budget can be
// known only with it in the journal.
func (n *naive) failed(fault machine.Fault, retryable bool, usage machine.Usage, why string, rejected uint32) *machine.TurnFailed {
	was := n.view()
	turn := was.turn
	retryable = retryable && !slices.Contains(n.g.Retry.NonRetryable, fault.Code)
	f := machine.TurnFailed{TurnSeq: turn.seq, Attempt: turn.attempt, Error: fault, Retryable: retryable, Usage: usage}
	n.add(&f)
	attempts := n.g.Retry.MaxAttempts
	if attempts == 0 {
		attempts = 3
	}
	switch reason := n.exceededBudget(); {
	case reason != "":
		n.end(machine.BudgetExhausted, reason, nil, nil)
	case !retryable:
		n.end(machine.Failed, why, nil, nil)
	case turn.attempt >= attempts:
		n.end(machine.Escalated, why, nil, nil)
	default:
		f.Next, f.NotBefore = turn.attempt+1, n.now.At+n.pause(&n.g.Retry, turn.seq, turn.attempt, turn.attempt)
		if rejected == 0 || !was.rejectable(rejected) {
			break
		}
		f.Rejected = rejected
		n.add(&machine.NoticeAdded{Code: "ANSWER_REJECTED", Text: naiveReason(fault)})
	}
	return &f
}

// naiveReason is what the model is asked again with.
func naiveReason(fault machine.Fault) string {
	why := fault.Code
	if fault.Message != "" && fault.Message != fault.Code {
		why = fault.Code + ": " + fault.Message
	}
	return "An answer that you gave here before was rejected, and is not shown: " + why + ". Give another answer."
}

func (n *naive) suspend(c machine.SuspendTurn) *machine.Error {
	if r := n.refuse(false, c.TurnSeq, c.Attempt, 0); r != nil {
		return r
	}
	v := n.view()
	if v.awaitedSteps() == nil {
		return &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "NOTHING_PENDING", Field: "turn_seq"}
	}
	if !v.turn.suspended {
		n.assign(c.Assigned)
		n.add(&machine.TurnSuspended{TurnSeq: c.TurnSeq, Attempt: c.Attempt, Pending: v.awaitedSteps()})
	}
	return nil
}

func (n *naive) lifecycle(c machine.Command) *machine.Error {
	if r := n.refuse(false, 0, 0, 0); r != nil {
		return r
	}
	paused := n.view().paused
	switch c := c.(type) {
	case machine.Pause:
		if !paused {
			n.add(&machine.Paused{Note: c.Note})
		}
	case machine.Resume:
		if paused {
			n.add(&machine.Resumed{Note: c.Note})
		}
	case machine.Cancel:
		n.end(machine.Cancelled, "cancelled", nil, nil)
	}
	return nil
}

func (n *naive) loseTurn(c machine.LoseTurn, out *verdict) {
	v := n.view()
	switch {
	case v.ended != nil:
		out.disposition = machine.IgnoredTerminal
	case n.start().Execution == machine.Caller && (c.Assigned == nil || !c.LeaseExpired && !c.Undeliverable), v.turn == nil, v.turn.seq != c.TurnSeq, v.turn.attempt != c.Attempt:
		out.disposition = machine.IgnoredStale
	case c.Undeliverable:
		n.assign(c.Assigned)
		n.end(machine.Escalated, "turn_undeliverable", nil, nil)
	case c.LeaseExpired:
		n.assign(c.Assigned)
		n.failed(machine.Fault{Code: "LEASE_EXPIRED", Message: "the worker let the turn's lease run out"}, true, machine.Usage{}, "turn_failed", 0)
	}
}

func (n *naive) fire(c machine.FireTimer, out *verdict) {
	v := n.view()
	if v.ended != nil {
		out.disposition = machine.IgnoredTerminal
		return
	}
	at := n.now.At
	n.now.At = max(at, c.Due)
	turn, step := v.turn, v.step(c.Step)
	switch {
	case c.Kind == machine.TimerWall && c.Due == v.deadline && c.Due > 0:
		n.end(machine.BudgetExhausted, "max_wall_time_sec", nil, nil)
	case c.Kind == machine.TimerRetry && turn != nil && turn.seq == c.Turn && turn.notBefore == c.Due && c.Due > 0:
		n.add(&machine.TurnReady{TurnSeq: turn.seq, Attempt: turn.attempt})
	case c.Kind == machine.TimerState && c.Due == v.timeoutAt && c.Due > 0 && !v.paused:
		n.abandon("state_timeout")
		n.follow(n.g.States[v.current].Timeout.Event, machine.CauseTimeout, nil)
	case c.Kind == machine.TimerStep && step != nil && step.status == machine.StepStatusPending && step.deadline == c.Due:
		fault := machine.Fault{Code: "DEADLINE_EXCEEDED", Message: "no answer within the step's deadline"}
		if step.model.is {
			n.expireModel(step, fault, out)
			return
		}
		if step.held.held {
			n.approvalTimeout(step, out)
			return
		}
		n.applyUnknown(step, fault, "", out)
	default:
		n.now.At, out.disposition = at, machine.IgnoredStale
	}
}
