package rules

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

func (n *naive) request(c machine.RequestSteps, out *verdict) *machine.Error {
	if r := n.refuse(true, c.TurnSeq, c.Attempt, 0); r != nil {
		return r
	}
	if len(c.Requests) == 0 {
		return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "NO_REQUESTS", Field: "requests"}
	}
	n.assign(c.Assigned)
	keys, noCall := n.keys(c)
	if bad := n.mismatch(c, keys); bad {
		out.mismatch = true
		n.failed(machine.Fault{Code: "STEP_MISMATCH"}, true, machine.Usage{}, "turn_failed", 0)
		return nil
	}
	if noCall != nil {
		return noCall
	}
	if r := n.refusePending(c, keys); r != nil {
		return r
	}
	if v := n.view(); v.deadline > 0 && n.now.At >= v.deadline {
		n.stop(keys, out, machine.BudgetExhausted, "max_wall_time_sec")
		return nil
	}
	for i, req := range c.Requests {
		if done := n.ask(req, keys[i], out); done {
			continue
		}
		if status, reason := n.stepBound(req); reason != "" {
			codes := map[string]string{
				"max_tool_calls": "MAX_TOOL_CALLS", "max_steps": "MAX_STEPS", "max_reframes": "MAX_REFRAMES",
				"max_tokens": "MAX_TOKENS", "max_cost_usd": "MAX_COST_USD", "max_calls:" + req.Tool: "MAX_CALLS",
			}
			n.add(&machine.StepRejected{Key: keys[i], Tool: req.Tool, TurnSeq: c.TurnSeq, Denial: machine.Denial{Code: codes[reason]}, Kind: n.kind(req.Tool)})
			n.stop(keys[i:], out, status, reason)
			out.outcomes[i].Denial = &machine.Denial{Code: codes[reason]}
			return nil
		}
		n.issue(req, keys[i], out)
	}
	return nil
}

// keys returns the keys of the requests, up to the first request that names a call that does not exist.
func (n *naive) keys(c machine.RequestSteps) ([]string, *machine.Error) {
	v := n.view()
	var keys []string
	for i, req := range c.Requests {
		ordinal := c.First + i
		if c.First == 0 {
			ordinal = v.turn.requests + 1 + i
		}
		switch {
		case req.Call != nil:
			key, refusal := v.callKey(*req.Call)
			if refusal != nil {
				refusal.Field = fmt.Sprintf("requests[%d].%s", i, refusal.Field)
				return keys, refusal
			}
			keys = append(keys, key)
		case req.Key != "":
			keys = append(keys, req.Key)
		default:
			keys = append(keys, v.prefix()+fmt.Sprint(ordinal))
		}
	}
	return keys, nil
}

// prefix is the beginning of the default keys in a turn that is not the first of its visit. A turn
// that a fork took over keeps its prefix.
func (v *view) prefix() string {
	switch {
	case v.turn.keys != 0:
		return fmt.Sprintf("%d.", v.turn.keys)
	case v.turn.seq == v.visitSeq:
		return ""
	}
	return fmt.Sprintf("%d.", v.turn.seq+v.keys)
}

// mismatch and refusePending execute the request on a copy of the run.
func (n *naive) mismatch(c machine.RequestSteps, keys []string) bool {
	sim := &naive{g: n.g, entries: n.entries, now: n.now, records: append([]machine.Record(nil), n.records...), blind: true}
	var ignored verdict
	for i, key := range keys {
		req := c.Requests[i]
		for _, s := range sim.view().steps {
			if s.key == key && (s.model.is || s.about.Role != 0 || s.tool != req.Tool || req.Call == nil && s.payload != sha256.Sum256(req.Payload)) {
				return true
			}
		}
		if !sim.ask(req, keys[i], &ignored) {
			sim.issue(req, keys[i], &ignored)
		}
	}
	return false
}

func (n *naive) refusePending(c machine.RequestSteps, keys []string) *machine.Error {
	sim := &naive{g: n.g, entries: n.entries, now: n.now, records: append([]machine.Record(nil), n.records...), blind: true}
	var ignored verdict
	fresh := false
	for i, req := range c.Requests {
		if !sim.ask(req, keys[i], &ignored) {
			sim.issue(req, keys[i], &ignored)
			fresh = true
		}
	}
	most := n.g.MaxPendingSteps
	if most == 0 {
		most = 8
	}
	if got := len(sim.view().ofTurns()); fresh && got > most {
		return &machine.Error{Code: machine.CodeResourceExhausted, Reason: "MAX_PENDING_STEPS", Field: "requests", Limit: int64(most), Got: int64(got)}
	}
	return nil
}

// ask answers a request that makes no new step, because its step exists or because it is refused.
// It reports whether it did.
func (n *naive) ask(req machine.StepRequest, key string, out *verdict) bool {
	v := n.view()
	for _, s := range v.steps {
		if s.key == key {
			known := machine.StepOutcome{Key: key, Step: s.n, Replayed: true, Status: s.status, AnswerSeq: s.answer}
			if s.call != (machine.CallRef{}) || s.held.edited {
				known.PayloadSeq = s.lastAsked()
			}
			if s.awaitsApproval() {
				known.Held, known.Digest = true, s.held.digest
			}
			out.outcomes = append(out.outcomes, known)
			return true
		}
	}
	prompt := n.g.Prompts[n.g.States[v.current].Prompt]
	var denial *machine.Denial
	switch {
	case prompt == nil || !prompt.Tools[req.Tool]:
		denial = &machine.Denial{Code: "TOOL_NOT_LISTED"}
	case prompt.Blocklist[req.Tool] || v.policy != nil && slices.Contains(v.policy.Block, req.Tool):
		denial = &machine.Denial{Code: "TOOL_BLOCKED"}
	case v.policy != nil && v.policy.Limited && !n.isAllowed(req.Tool, v.policy.Allow):
		denial = &machine.Denial{Code: "TOOL_NOT_ALLOWED"}
	case req.Denied != nil:
		denial = req.Denied
	case prompt.MaxToolCallsPerTurn > 0 && v.turn.calls >= prompt.MaxToolCallsPerTurn:
		denial = &machine.Denial{Code: "MAX_TOOL_CALLS_PER_TURN"}
	case n.duplicate(req):
		denial = &machine.Denial{Code: "DUPLICATE_EFFECT"}
	default:
		return false
	}
	n.add(&machine.StepRejected{Key: key, Tool: req.Tool, TurnSeq: v.turn.seq, Denial: *denial, Kind: n.kind(req.Tool)})
	out.outcomes = append(out.outcomes, machine.StepOutcome{Key: key, Denial: denial})
	return true
}

func (n *naive) stepBound(req machine.StepRequest) (machine.Status, string) {
	v, b := n.view(), n.g.Budget
	steps := b.MaxSteps
	if most := n.start().MaxSteps; most > 0 && (steps == 0 || most < steps) {
		steps = most
	}
	calls := int64(1)
	if n.bindsAgents() && n.g.Tools[req.Tool].Agent {
		calls = 2
	}
	switch {
	case v.mostCalls > 0 && int64(v.calls)+v.lentCalls(nil)+calls > v.mostCalls:
		return machine.BudgetExhausted, "max_tool_calls"
	case n.g.Tools[req.Tool].MaxCalls > 0 && v.called[req.Tool]+1 > n.g.Tools[req.Tool].MaxCalls:
		return machine.BudgetExhausted, "max_calls:" + req.Tool
	case steps > 0 && v.toolSteps+1 > steps:
		return machine.Escalated, "max_steps"
	case req.Reframe && b.MaxReframes > 0 && v.reframes+1 > b.MaxReframes:
		return machine.Escalated, "max_reframes"
	}
	return machine.BudgetExhausted, v.missingBudget(n.boundOf(req.Tool), nil)
}

func (n *naive) stop(keys []string, out *verdict, status machine.Status, reason string) {
	issued := len(out.outcomes)
	n.close(status, reason)
	word := "RUN_TERMINAL"
	if v := n.view(); v.ended == nil && v.undo == nil {
		word = "VISIT_LEFT"
	}
	for _, key := range keys {
		out.outcomes = append(out.outcomes, machine.StepOutcome{Key: key, Denial: &machine.Denial{Code: word}})
	}
	for i := range out.outcomes[:issued] {
		if out.outcomes[i].Status == machine.StepStatusPending {
			out.outcomes[i].Status = machine.StepStatusCancelled
		}
	}
}

func (n *naive) timeout(tool string) int64 {
	if d := n.g.Tools[tool].Timeout; d > 0 {
		return int64(d)
	}
	if n.g.Tools[tool].Agent {
		return int64(24 * time.Hour)
	}
	return int64(300 * time.Second)
}

func (n *naive) issue(req machine.StepRequest, key string, out *verdict) {
	v := n.view()
	hold, deadline := n.approvalHold(req), n.now.At+n.timeout(req.Tool)
	if hold != nil {
		deadline = n.now.At + n.patience(req.Tool)
	}
	n.add(&machine.StepRequested{
		Step: v.lastStep + 1, Key: key, Tool: req.Tool, TurnSeq: v.turn.seq, Attempt: 1, Payload: req.Payload,
		Reframe: req.Reframe, Deadline: deadline, Hold: hold, Delegation: n.g.Tools[req.Tool].Agent, Call: req.Call,
		Bound: asUsage(n.boundOf(req.Tool)), Policy: n.passedOn(req), ByCaller: req.ByCaller, Repeatable: req.Repeatable,
		Local: n.now.Semantics >= 7 && !v.uncounted && req.Local && n.g.Tools[req.Tool].Agent,
	})
	issued := machine.StepOutcome{Key: key, Step: v.lastStep + 1, Status: machine.StepStatusPending}
	if hold != nil {
		issued.Held, issued.Digest = true, n.digest(req.Tool, v.lastStep+1, req.Payload)
	}
	out.outcomes = append(out.outcomes, issued)
}

func (n *naive) resolve(c machine.ResolveStep, out *verdict) {
	v := n.view()
	step := v.step(c.Step)
	used, unpriced := c.Usage, (*machine.Error)(nil)
	if step != nil && (step.model.is || !n.g.Tools[step.tool].Agent) {
		used, unpriced = n.addPrice(c.Usage)
	}
	switch {
	case v.ended != nil:
		out.disposition = machine.IgnoredTerminal
	case c.Step == 0:
		out.refusal = &machine.Error{Code: machine.CodeInvalidArgument, Reason: "STEP_REQUIRED", Field: "step"}
	case c.Step > v.lastStep:
		out.disposition = machine.DispEscalated
		n.end(machine.Escalated, "protocol_violation", nil, nil)
	case refuseUsage(c.Usage) != nil:
		out.refusal = refuseUsage(c.Usage)
	case step == nil:
		out.disposition = machine.IgnoredStale
	case step.status != machine.StepStatusPending && step.tool == c.Tool && sameAnswer(step, c):
		out.disposition = machine.IgnoredDuplicate
	case step.status != machine.StepStatusPending:
		out.disposition = machine.IgnoredStale
	case step.model.is:
		out.refusal = &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "STEP_KIND", Field: "step"}
	case step.held.held && (c.Attempt < 1 || c.Attempt >= step.attempt):
		out.refusal = &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "STEP_HELD", Field: "step"}
	case step.tool != c.Tool:
		out.disposition = machine.DispEscalated
		n.end(machine.Escalated, "protocol_violation", nil, nil)
	case c.Attempt > step.attempt:
		out.disposition = machine.IgnoredStale
	case !c.OK && c.Attempt != 0 && c.Attempt != step.attempt:
		out.disposition = machine.IgnoredStale
	case c.Unknown && step.inquiry != 0:
		out.disposition = machine.IgnoredStale
	case unpriced != nil:
		out.refusal = unpriced
	default:
		n.applyAnswer(c, step, used, out)
	}
}

// applyAnswer applies an answer to a pending step.
func (n *naive) applyAnswer(c machine.ResolveStep, step *vstep, used machine.Usage, out *verdict) {
	used, exceeded := step.settledUsage(used, c.Metered, n.g.Tools[step.tool].Agent)
	if exceeded != "" {
		c.Unknown = c.Unknown || c.OK
		c.OK, c.Final, c.Error = false, true, machine.Fault{Code: "LEASE_EXCEEDED", Message: exceeded}
	}
	switch {
	case c.OK:
		writes := n.bound(c)
		if out.refusal = n.refuseWrites(writes); out.refusal != nil {
			return
		}
		if out.refusal = n.refuseTold(step, c); out.refusal != nil {
			return
		}
		attempt := c.Attempt
		if attempt == 0 {
			attempt = step.attempt
		}
		b := machine.StepResolved{Step: c.Step, Tool: c.Tool, Attempt: attempt, OK: true, Result: c.Result, Worker: c.Worker, Artifacts: writes, Usage: used, Kind: n.kind(c.Tool)}
		n.add(&b)
		n.dropQuestion(step)
		n.wake()
		n.conclude(step, &b, out)
	case c.Unknown:
		n.unknownAs(step, machine.StepResolved{Error: c.Error, Worker: c.Worker, Usage: used, Unknown: true}, !c.Final, out)
	default:
		n.stepFailed(step, machine.StepResolved{Error: c.Error, Worker: c.Worker, Usage: used}, !c.Final, n.g.Tools[step.tool].OnError, out)
	}
}

// kind returns the kind of the steps of a tool.
func (n *naive) kind(tool string) machine.StepKind {
	if n.now.Semantics < 4 {
		return 0
	}
	if n.g.Tools[tool].Agent {
		return machine.KindDelegation
	}
	return machine.KindTool
}

// wake offers a suspended turn again when no step is pending.
func (n *naive) wake() {
	if v := n.view(); v.turn != nil && v.turn.suspended && v.awaitedSteps() == nil {
		n.add(&machine.TurnReady{TurnSeq: v.turn.seq, Attempt: v.turn.attempt})
	}
}

// stepFailed starts the next attempt of the step if there may be one. Otherwise it does what the policy says.
func (n *naive) stepFailed(step *vstep, r machine.StepResolved, again bool, policy machine.OnFault, out *verdict) {
	r.Step, r.Tool, r.Attempt, r.Kind = step.n, step.tool, step.attempt, n.kind(step.tool)
	p := n.g.Tools[step.tool].Retry
	if p != nil && slices.Contains(p.NonRetryable, r.Error.Code) {
		again = false
	}
	n.dropQuestion(step)
	v := n.view()
	v.spend(r.Usage)
	if v.undo != nil && step.about.Role == 0 {
		again = false
	}
	if again && step.attempt < n.g.Tools[step.tool].Attempts && v.missingBudget(step.bound, step) == "" {
		wait, most := int64(0), int64(60*time.Second)
		if p != nil {
			wait = n.pause(p, uint64(step.n), step.attempt, step.attempt)
			if p.Max != 0 {
				most = int64(p.Max)
			}
		}
		if c, ok := n.now.Command.(machine.ResolveStep); ok && c.Step == step.n {
			wait = max(wait, min(int64(c.RetryAfter), most))
		}
		r.Next, r.Deadline = step.attempt+1, n.now.At+wait+n.timeout(step.tool)
		if wait > 0 {
			r.NotBefore = n.now.At + wait
		}
		n.add(&r)
		return
	}
	n.add(&r)
	if policy == machine.Escalate && step.about.Role == 0 {
		out.disposition = machine.DispEscalated
		if reason := n.exceededBudget(); reason != "" && n.now.Semantics >= 2 {
			n.end(machine.BudgetExhausted, reason, nil, nil)
			return
		}
		n.end(machine.Escalated, "tool_error:"+step.tool, nil, nil)
		return
	}
	n.wake()
	n.conclude(step, &r, out)
}

// unknownAs applies the on_unknown policy to a step. Under a policy that neither reconciles nor
// retries, only a question to a reconcile tool gets another attempt.
func (n *naive) unknownAs(step *vstep, r machine.StepResolved, again bool, out *verdict) {
	tool := n.g.Tools[step.tool]
	if step.repeatable {
		tool.OnUnknown = machine.Retry
	}
	switch tool.OnUnknown {
	case machine.Reconcile:
		n.resolveDoubt(step, r)
	case machine.Retry:
		n.stepFailed(step, r, again, tool.OnError, out)
	default:
		n.stepFailed(step, r, again && step.about.Role == machine.RoleReconcile, tool.OnUnknown, out)
	}
}

func (n *naive) applyUnknown(step *vstep, fault machine.Fault, worker string, out *verdict) {
	tool := n.g.Tools[step.tool]
	r := machine.StepResolved{Error: fault, Unknown: true, Worker: worker, Usage: asUsage(step.bound)}
	if (tool.OnUnknown == machine.Retry || step.repeatable) && tool.Agent {
		n.stepFailed(step, r, false, machine.Return, out)
		return
	}
	n.unknownAs(step, r, true, out)
}

// refuseTold refuses an answer of a reconcile tool if the result that it reports does not fit into
// the artifacts that are bound to the other step's tool.
func (n *naive) refuseTold(own *vstep, c machine.ResolveStep) *machine.Error {
	s := n.view().step(own.about.Step)
	word, result := toldBy(&machine.StepResolved{OK: true, Result: c.Result})
	if own.about.Role != machine.RoleReconcile || word != "yes" || s == nil || s.inquiry != own.n {
		return nil
	}
	return n.refuseWrites(n.bound(machine.ResolveStep{Tool: s.tool, Result: result}))
}

func (n *naive) loseStep(c machine.LoseStep, out *verdict) {
	v := n.view()
	step := v.step(c.Step)
	switch {
	case v.ended != nil:
		out.disposition = machine.IgnoredTerminal
	case step == nil || step.model.is || step.status != machine.StepStatusPending || step.held.held || step.inquiry != 0 || step.attempt != c.Attempt:
		out.disposition = machine.IgnoredStale
	default:
		n.applyUnknown(step, machine.Fault{Code: "WORKER_LOST", Message: fmt.Sprintf("worker %q was lost while it had the step", c.Worker)}, c.Worker, out)
	}
}
