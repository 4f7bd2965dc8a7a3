package rules

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// ask is one request of a RequestSteps, with the result of its checks.
type ask struct {
	*machine.StepRequest
	key    string
	denial *machine.Denial
	// known is the index of the step of the visit that the request repeats. twin is the index of the
	// earlier request of the same input that the request repeats. Each is -1 if there is none.
	known, twin int
}

func (a *ask) fresh() bool { return a.denial == nil && a.known < 0 && a.twin < 0 }

// request requests tool calls. It checks all requests before it issues a step. If a known key is used
// for another call, the attempt fails and no step is issued. If there are too many pending steps, the
// whole input is refused.
func (t *txn) request(c *machine.RequestSteps) error {
	if err := First(t.checkOpen(), t.checkUnpaused(), t.checkTurn(c.TurnSeq, c.Attempt), checkRequest(c)); err != nil {
		return err
	}
	t.assign(c.Assigned)
	from := c.First
	if from == 0 {
		from = t.s.Turn.Requests + 1
	}
	asks, mismatch, err := t.judge(c.Requests, from)
	if err != nil {
		return err
	}
	if mismatch != nil {
		t.refused = mismatch
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

// maxOrdinal bounds RequestSteps.First. It is far above the number of requests of any real turn.
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

// judge checks the requests in their order. It stops at a request whose key belongs to another call.
func (t *txn) judge(requests []machine.StepRequest, from int) ([]ask, *machine.Error, error) {
	asks := make([]ask, len(requests))
	calls := t.s.Turn.Calls
	for i := range requests {
		a := &asks[i]
		*a = ask{StepRequest: &requests[i], key: requests[i].Key, known: -1, twin: -1}
		if err := t.keyOf(a, i, from+i); err != nil {
			return nil, nil, err
		}
		if same := t.lookUp(a, asks[:i]); !same {
			return nil, &machine.Error{
				Code: machine.CodeFailedPrecondition, Reason: "STEP_MISMATCH", Field: fmt.Sprintf("requests[%d].key", i),
				Message: fmt.Sprintf("key %q is taken by a step with another tool or payload than this request for %q", a.key, a.Tool),
			}, nil
		}
		if a.known >= 0 || a.twin >= 0 {
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

// keyOf sets the key of the i-th request. The key is the request's own key if it has one, or the key of
// the model's call, or the ordinal of the request.
func (t *txn) keyOf(a *ask, i, ordinal int) (err error) {
	switch {
	case a.Call != nil:
		a.key, err = CallKey(t.s.Steps, a.Call, fmt.Sprintf("requests[%d].call", i))
	case a.key == "":
		a.key = t.defaultKey(ordinal)
	}
	return err
}

// lookUp finds the step or the earlier request that has the same key as a. It returns false if that
// step or request is for a different call.
func (t *txn) lookUp(a *ask, earlier []ask) bool {
	for i := range t.s.Steps {
		if s := &t.s.Steps[i]; s.Key == a.key {
			a.known = i
			return s.Model == nil && s.About == nil && s.Tool == a.Tool && (s.PayloadHash == a.PayloadHash || a.Call != nil)
		}
	}
	for i := range earlier {
		if e := &earlier[i]; e.key == a.key && e.fresh() {
			a.twin = i
			return e.Tool == a.Tool && (e.PayloadHash == a.PayloadHash || a.Call != nil)
		}
	}
	return true
}

// deny returns the first reason to refuse a request. It checks, in this order: the tools of the prompt,
// its blocklist, the policy of the delegating run, the denial that the engine stamped, and the number
// of calls in the turn.
func (t *txn) deny(a *ask, calls int) *machine.Denial {
	p := t.g.Prompts[t.node().Prompt]
	switch {
	case p == nil || !p.Tools[a.Tool]:
		return &machine.Denial{Code: "TOOL_NOT_LISTED", Message: fmt.Sprintf("the prompt of state %q does not list tool %q", t.s.Current, a.Tool)}
	case p.Blocklist[a.Tool]:
		return &machine.Denial{Code: machine.ToolBlocked, Message: fmt.Sprintf("the prompt's blocklist names tool %q", a.Tool)}
	}
	if denial := t.denied(a.Tool); denial != nil {
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

func (t *txn) checkPending(asks []ask) error {
	limit := OrDefault(t.g.MaxPendingSteps, machine.DefaultMaxPendingSteps)
	fresh := 0
	for i := range asks {
		if asks[i].fresh() {
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

// takeAsks issues, rejects or replays the requests in order. If a step exceeds a bound, the run ends.
// The steps before it stay issued.
func (t *txn) takeAsks(asks []ask) {
	t.outcomes = make([]machine.StepOutcome, len(asks))
	t.want(asks)
	for i := range asks {
		a := &asks[i]
		switch {
		case a.twin >= 0:
			t.outcomes[i] = OutcomeOf(&t.s.Steps[FindStep(t.s.Steps, t.outcomes[a.twin].Step)])
		case a.known >= 0:
			t.outcomes[i] = OutcomeOf(&t.s.Steps[a.known])
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

// kindOf returns the kind of the step that the request would make.
func (t *txn) kindOf(a *ask) machine.StepKind {
	if t.g.Tools[a.Tool].Agent {
		return t.recordedKind(machine.KindDelegation)
	}
	return t.recordedKind(machine.KindTool)
}

// recordedKind returns the kind that is written to records. It depends on the semantics version of the
// input.
func (t *txn) recordedKind(kind machine.StepKind) machine.StepKind {
	if kind == machine.KindModel || t.rules.kindIsRecorded {
		return kind
	}
	return 0
}

// rejectLast records the request that exceeds a bound as rejected, without a step number, and ends the run.
func (t *txn) rejectLast(rest []ask, status machine.Status, reason string) {
	a := &rest[0]
	denial := t.refusal(status, reason)
	t.record(&machine.StepRejected{Key: a.key, Tool: a.Tool, TurnSeq: t.s.Turn.Seq, Denial: *denial, Kind: t.kindOf(a)})
	t.endAsks(rest, status, reason)
	t.outcomes[len(t.outcomes)-len(rest)].Denial = denial
}

// endAsks ends the run or the visit before the remaining requests are issued.
func (t *txn) endAsks(rest []ask, status machine.Status, reason string) {
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
