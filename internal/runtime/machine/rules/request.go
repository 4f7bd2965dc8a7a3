package rules

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// requestedStep is one requested step of a RequestSteps, with the result of its checks.
type requestedStep struct {
	*machine.StepRequest
	key    string
	denial *machine.Denial
	// existing is the index of the existing step of the visit that has the same key. twin is the index of the
	// earlier request of the same input that has the same key. Each is -1 if there is none.
	existing, twin int
}

func (a *requestedStep) isNew() bool { return a.denial == nil && a.existing < 0 && a.twin < 0 }

// request handles the tool calls that the executor of a turn requests. It checks all requests before it
// issues a step. If a known key is used for a different call, the attempt of the turn fails and no step is
// issued. If too many steps would be pending, the whole input is refused.
func (t *txn) request(c *machine.RequestSteps) error {
	if err := First(t.checkOpen(), t.checkUnpaused(), t.checkTurn(c.TurnSeq, c.Attempt), checkRequest(c)); err != nil {
		return err
	}
	t.assign(c.Assigned)
	from := c.First
	if from == 0 {
		from = t.s.Turn.Requests + 1
	}
	asks, mismatch, err := t.checkRequests(c.Requests, from)
	if err != nil {
		return err
	}
	if mismatch != nil {
		t.refusedErr = mismatch
		t.failTurn(&machine.TurnFailed{Error: machine.Fault{Code: mismatch.Reason, Message: mismatch.Message}, Retryable: true}, turnFailed)
		return nil
	}
	if err := t.checkPending(asks); err != nil {
		return err
	}
	if t.overdue() {
		t.endAsks(asks, machine.BudgetExhausted, "max_wall_time_sec")
		return nil
	}
	t.clearBackoff()
	t.turn().Requests = from + len(asks) - 1
	t.takeAsks(asks)
	return nil
}

// maxOrdinal bounds RequestSteps.First, far above the number of requests of any real turn.
const maxOrdinal = 1 << 30

func checkRequest(c *machine.RequestSteps) error {
	if len(c.Requests) == 0 {
		return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "NO_REQUESTS", Field: "requests", Message: "ask for at least one step"}
	}
	if c.First < 0 || c.First > maxOrdinal {
		return &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "BAD_ORDINAL", Field: "first",
			Message: "ordinals count from 1; 0 goes on", Limit: maxOrdinal, Got: int64(c.First),
		}
	}
	return nil
}

// checkRequests makes the checks of each request, in order. It stops at a request whose key belongs to a different
// call.
func (t *txn) checkRequests(requests []machine.StepRequest, from int) ([]requestedStep, *machine.Error, error) {
	asks := make([]requestedStep, len(requests))
	calls := t.s.Turn.Calls
	for i := range requests {
		a := &asks[i]
		*a = requestedStep{StepRequest: &requests[i], key: requests[i].Key, existing: -1, twin: -1}
		if err := t.keyOf(a, i, from+i); err != nil {
			return nil, nil, err
		}
		if same := t.lookUp(a, asks[:i]); !same {
			return nil, &machine.Error{
				Code: machine.CodeFailedPrecondition, Reason: "STEP_MISMATCH", Field: fmt.Sprintf("requests[%d].key", i),
				Message: fmt.Sprintf("key %q is taken by a step with another tool or payload than this request for %q", a.key, a.Tool),
			}, nil
		}
		if a.existing >= 0 || a.twin >= 0 {
			continue
		}
		if a.denial = t.deny(a, calls); a.denial == nil {
			a.denial = sameEffect(a, asks[:i])
		}
		if a.denial == nil {
			a.denial = t.tooMany(a, asks[:i])
		}
		if a.denial == nil {
			calls++
		}
	}
	return asks, nil, nil
}

// keyOf sets the key of the i-th request: the key of the model's tool call, or the request's own key, or
// its ordinal.
func (t *txn) keyOf(a *requestedStep, i, ordinal int) (err error) {
	switch {
	case a.Call != nil:
		a.key, err = CallKey(t.s.Steps, a.Call, fmt.Sprintf("requests[%d].call", i))
	case a.key == "":
		a.key = t.defaultKey(ordinal)
	}
	return err
}

// lookUp finds the existing step or the earlier request that has the same key as a. It returns false if the
// found step or request is for a different call. For a tool call in a model's answer it does not compare the
// payloads, because the key identifies the call.
func (t *txn) lookUp(a *requestedStep, earlier []requestedStep) bool {
	for i := range t.s.Steps {
		if s := &t.s.Steps[i]; s.Key == a.key {
			a.existing = i
			return s.Model == nil && s.About == nil && s.Tool == a.Tool && (s.PayloadHash == a.PayloadHash || a.Call != nil)
		}
	}
	for i := range earlier {
		if e := &earlier[i]; e.key == a.key && e.isNew() {
			a.twin = i
			return e.Tool == a.Tool && (e.PayloadHash == a.PayloadHash || a.Call != nil)
		}
	}
	return true
}

// deny returns the first reason to refuse a request. It checks, in this order: the tools of the prompt, its
// blocklist, the policy of the delegating run, the engine's refusal, and the number of calls in the turn.
func (t *txn) deny(a *requestedStep, calls int) *machine.Denial {
	p := t.g.Prompts[t.node().Prompt]
	switch {
	case p == nil || !p.Tools[a.Tool]:
		return &machine.Denial{Code: "TOOL_NOT_LISTED", Message: fmt.Sprintf("the prompt of state %q does not list tool %q", t.s.Current, a.Tool)}
	case p.Blocklist[a.Tool]:
		return &machine.Denial{Code: machine.ToolBlocked, Message: fmt.Sprintf("the prompt's blocklist names tool %q", a.Tool)}
	}
	if denial := t.policyDenial(a.Tool); denial != nil {
		return denial
	}
	switch {
	case a.Denied != nil:
		return a.Denied
	case p.MaxToolCallsPerTurn > 0 && calls >= p.MaxToolCallsPerTurn:
		return &machine.Denial{Code: "MAX_TOOL_CALLS_PER_TURN", Message: fmt.Sprintf("the turn has made its %d calls", p.MaxToolCallsPerTurn)}
	}
	return nil
}

// checkPending returns an error if too many steps would be pending with the requested ones.
func (t *txn) checkPending(asks []requestedStep) error {
	limit := OrDefault(t.g.MaxPendingSteps, machine.DefaultMaxPendingSteps)
	fresh := 0
	for i := range asks {
		if asks[i].isNew() {
			fresh++
		}
	}
	got := OfTurns(t.s) + fresh
	if fresh == 0 || got <= limit {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeResourceExhausted, Reason: "MAX_PENDING_STEPS", Field: "requests",
		Message: fmt.Sprintf("%d steps would be pending, at most %d: wait for answers", got, limit),
		Limit:   int64(limit), Got: int64(got),
	}
}

// takeAsks issues or rejects the requests in order. A repeated request gets the outcome of the existing
// step. If a request exceeds a bound, the run ends or enters on_budget. The steps before it were issued, and are
// then cancelled.
func (t *txn) takeAsks(asks []requestedStep) {
	t.outcomes = make([]machine.StepOutcome, len(asks))
	t.listEffectKeys(asks)
	for i := range asks {
		a := &asks[i]
		switch {
		case a.twin >= 0:
			t.outcomes[i] = OutcomeOf(&t.s.Steps[FindStep(t.s.Steps, t.outcomes[a.twin].Step)])
		case a.existing >= 0:
			t.outcomes[i] = OutcomeOf(&t.s.Steps[a.existing])
		case a.denial != nil:
			t.record(&machine.StepRejected{Key: a.key, Tool: a.Tool, TurnSeq: t.s.Turn.Seq, Denial: *a.denial, Kind: t.kindOf(a)})
			t.outcomes[i] = machine.StepOutcome{Key: a.key, Denial: a.denial}
		default:
			if status, reason := t.stepBound(a); reason != "" {
				t.rejectLast(asks[i:], status, reason)
				return
			}
			bound := t.boundFor(new(ToolOf(t.g, a.Tool)))
			if reason := t.refusedBy(-1, bound, t.countsItself(a)); reason != "" {
				t.rejectLast(asks[i:], machine.BudgetExhausted, reason)
				return
			}
			t.outcomes[i] = t.issue(a, bound)
		}
	}
}

// kindOf returns the kind of the step that a request would make.
func (t *txn) kindOf(a *requestedStep) machine.StepKind {
	if t.g.Tools[a.Tool].Agent {
		return t.recordedKind(machine.KindDelegation)
	}
	return t.recordedKind(machine.KindTool)
}

// recordedKind returns the kind that is written to records. Older semantics versions write the kind only
// for model calls.
func (t *txn) recordedKind(kind machine.StepKind) machine.StepKind {
	if kind == machine.KindModel || t.rules.kindIsRecorded {
		return kind
	}
	return 0
}

// rejectLast records the request that exceeds a bound as rejected, without a step number, and ends the run
// or its visit.
func (t *txn) rejectLast(rest []requestedStep, status machine.Status, reason string) {
	a := &rest[0]
	denial := t.refusal(status, reason)
	t.record(&machine.StepRejected{Key: a.key, Tool: a.Tool, TurnSeq: t.s.Turn.Seq, Denial: *denial, Kind: t.kindOf(a)})
	t.endAsks(rest, status, reason)
	t.outcomes[len(t.outcomes)-len(rest)].Denial = denial
}

// endAsks ends the run or its visit before the remaining requests are issued. It sets the outcomes of these
// requests. The steps that this input has already issued get the outcome cancelled.
func (t *txn) endAsks(rest []requestedStep, status machine.Status, reason string) {
	if t.outcomes == nil {
		t.outcomes = make([]machine.StepOutcome, len(rest))
	}
	done := len(t.outcomes) - len(rest)
	for i := range t.outcomes[:done] {
		if t.outcomes[i].Status == machine.StepStatusPending {
			t.outcomes[i].Status = machine.StepStatusCancelled
		}
	}
	t.closeFor(status, reason)
	for i := range rest {
		t.outcomes[done+i] = machine.StepOutcome{Key: rest[i].key, Denial: t.notMade()}
	}
}

// stepBound checks whether one more step is within the bounds of tool calls (of the run and of the tool), of
// steps, and of requests with the flag Reframe. If it is not, stepBound returns the status and reason with
// which the run ends. Otherwise it returns Running.
func (t *txn) stepBound(a *requestedStep) (machine.Status, string) {
	b, calls := &t.g.Budget, int64(1)
	if t.rules.agentsAreLeased && t.g.Tools[a.Tool].Agent {
		calls = 2 // the delegation itself, and at least one call by the agent
	}
	switch {
	case t.callsLeft(-1) < calls:
		return machine.BudgetExhausted, "max_tool_calls"
	case t.g.Tools[a.Tool].MaxCalls > 0 && CalledTimes(t.s, a.Tool) >= t.g.Tools[a.Tool].MaxCalls:
		return machine.BudgetExhausted, maxCalls + ":" + a.Tool
	case t.s.MaxSteps > 0 && ToolSteps(t.s) >= int64(t.s.MaxSteps):
		return machine.Escalated, "max_steps"
	case a.Reframe && b.MaxReframes > 0 && t.s.Reframes >= b.MaxReframes:
		return machine.Escalated, "max_reframes"
	}
	return machine.Running, ""
}

// issue makes a pending step for a request, with the next step number of the run.
func (t *txn) issue(a *requestedStep, bound machine.Amount) machine.StepOutcome {
	tool := ToolOf(t.g, a.Tool)
	s, turn := t.s, t.turn()
	s.LastStep++
	s.ToolCalls = int(AddCapped(int64(s.ToolCalls), 1))
	turn.Calls++
	t.countCall(a.Tool, tool.MaxCalls)
	if a.Reframe {
		s.Reframes++
	}
	deadline := AddCapped(t.input.At, int64(tool.Timeout))
	request := &machine.StepRequested{
		Step: s.LastStep, Key: a.key, Tool: a.Tool, TurnSeq: turn.Seq, Attempt: 1,
		Payload: a.Payload, Reframe: a.Reframe, Deadline: deadline, Delegation: tool.Agent, Call: a.Call,
		Bound: usageOfBound(bound), ByCaller: a.ByCaller, Repeatable: a.Repeatable,
	}
	if tool.Agent && t.rules.agentsAreLeased {
		request.Policy = t.passOn(a.Policy)
	}
	request.Local = t.countsItself(a)
	step := machine.ToolStep{
		Step: s.LastStep, Key: a.key, Tool: a.Tool, PayloadHash: a.PayloadHash,
		Status: machine.StepStatusPending, Attempt: 1, TurnSeq: turn.Seq,
		Deadline: deadline, Delegation: tool.Agent, Call: a.Call, Effect: a.Effect, Bound: bound, ByCaller: a.ByCaller, Local: request.Local,
		Repeatable: a.Repeatable,
	}
	t.awaitApproval(&step, request, a.Holding)
	step.RequestSeq = t.record(request)
	s.Steps = append(t.steps(), step)
	t.takeEffect(&s.Steps[len(s.Steps)-1])
	out := OutcomeOf(&step)
	out.Replayed, out.PayloadSeq = false, 0
	return out
}

// maxCalls is the first part of the reason of a run that ended because a tool has no calls left
// (x_pawl.tools.NAME.max_calls). A colon and the name of the tool follow.
const maxCalls = "max_calls"

// countCall counts a call of a tool that has its own bound of calls. limit is this bound. If it is 0,
// countCall does nothing.
func (t *txn) countCall(tool string, limit int) {
	if limit == 0 {
		return
	}
	s := t.s
	s.Called = slices.Clone(s.Called)
	i := slices.IndexFunc(s.Called, func(c machine.Count) bool { return c.State == tool })
	if i < 0 {
		s.Called = append(s.Called, machine.Count{State: tool, N: 1})
		return
	}
	s.Called[i].N++
}

// OutcomeOf returns the current outcome of an existing step, as the answer to a repeated request.
func OutcomeOf(s *machine.ToolStep) machine.StepOutcome {
	out := machine.StepOutcome{Key: s.Key, Step: s.Step, Replayed: true, Status: s.Status, AnswerSeq: s.AnswerSeq}
	if s.HeldForApproval() {
		out.Held, out.Digest = true, s.Approval.Digest
	}
	if s.Call != nil || s.PayloadSeq() != s.RequestSeq {
		out.PayloadSeq = s.PayloadSeq()
	}
	return out
}

// defaultKey returns the key of a request without a key: its ordinal among the requests of the turn. In
// later turns of a visit the key begins with the number of the turn, because keys must be unique in the
// visit.
func (t *txn) defaultKey(ordinal int) string {
	if turn := KeysOf(t.s); turn != 0 {
		return strconv.FormatUint(turn, 10) + "." + strconv.Itoa(ordinal)
	}
	return strconv.Itoa(ordinal)
}
