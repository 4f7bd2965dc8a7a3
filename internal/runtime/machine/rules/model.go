package rules

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Model calls (semantics §9). The executor of the turn makes them itself, so they are not sent to workers. The key of
// the step and the record of its answer prevent that the same call is made twice.

// requestModel handles the request for a round: the next model call of the turn. If the round is already answered, the
// recorded answer is returned. If an earlier execution made the request but got no answer, the call is made again, unless
// the pack's on_unknown says otherwise. A further round above max_rounds fails the attempt of the turn.
func (t *txn) requestModel(c *machine.RequestModel) error {
	if err := First(t.checkOpen(), t.checkUnpaused(), t.checkTurn(c.TurnSeq, c.Attempt), CheckModelRequest(c)); err != nil {
		return err
	}
	key := ModelKey(t.s, c)
	i := FindKey(t.s.Steps, key)
	if i >= 0 && t.s.Steps[i].Model == nil {
		return NotModel(&t.s.Steps[i], key)
	}
	if i >= 0 && t.needsNoCall(i, c) {
		t.replayModel(i, c)
		return nil
	}
	if i >= 0 && t.handleLostCall(i, c) {
		return nil
	}
	if i < 0 && c.Denied != nil {
		t.denyRound(c)
		return nil
	}
	size := RequestBytes(c.Model)
	if err := First(t.checkRequiredIncluded(c.Model), t.checkAnswerSpace(size), t.checkPendingModel(i), t.priceBound(c)); err != nil {
		return err
	}
	t.assign(c.Assigned)
	t.clearBackoff()
	if status, reason := t.modelBound(t.releasableStep(i), AddCapped(c.Bound.InputTokens, c.Bound.OutputTokens), c.Bound.CostMicro); reason != "" {
		t.denyModel(key, c, status, reason)
		return nil
	}
	t.s.MessageBytes += size
	if i < 0 {
		i = t.issueModel(key, c)
	} else {
		t.reopenModel(i, c)
	}
	t.outcomes = []machine.StepOutcome{{Key: key, Step: t.s.Steps[i].Step, Status: machine.StepStatusPending}}
	return nil
}

// Round returns the step of the requested model call, or nil if the call was not requested before or no turn is open.
func Round(s *machine.State, c *machine.RequestModel) *machine.ToolStep {
	if s.Turn == nil {
		return nil
	}
	i := FindKey(s.Steps, ModelKey(s, c))
	if i < 0 || s.Steps[i].Model == nil {
		return nil
	}
	return &s.Steps[i]
}

// needsNoCall reports whether the requested model call need not be made. This is the case if it is already answered. It is
// also the case if this execution has already requested it, and either waits for the answer or has used up its
// attempts.
func (t *txn) needsNoCall(i int, c *machine.RequestModel) bool {
	step := &t.s.Steps[i]
	return step.Status == machine.StepStatusOK || t.requestedBy(step, c.TurnSeq, c.Attempt, c.Assigned)
}

// requestedBy reports whether the given execution of the turn was the last one that requested the step.
func (t *txn) requestedBy(step *machine.ToolStep, turn uint64, attempt int, by *machine.Assignment) bool {
	return step.TurnSeq == turn && step.Model.TurnAttempt == attempt && step.Model.By == ValueOf(by)
}

// replayModel answers a model request that was made before from the record. If the new request differs from the
// recorded one, a ModelUpdated record notes this once.
func (t *txn) replayModel(i int, c *machine.RequestModel) {
	step := &t.s.Steps[i]
	outcome := OutcomeOf(step)
	if step.PayloadHash != c.Model.Hash && !step.Model.Changed {
		t.assign(c.Assigned)
		t.clearBackoff()
		t.record(&machine.ModelUpdated{Step: step.Step, Attempt: step.Attempt, Changed: true, Hash: c.Model.Hash})
		t.model(i).Changed = true
	}
	t.outcomes = []machine.StepOutcome{outcome}
}

// model returns the model data of a step in the new state, in a copy that the caller may change.
func (t *txn) model(i int) *machine.ModelStep {
	step := &t.steps()[i]
	m := *step.Model
	step.Model = &m
	return &m
}

// checkPendingModel returns an error if too many steps would be pending. The limit includes tool calls. i is the index
// of the step if it already exists, otherwise -1.
func (t *txn) checkPendingModel(i int) error {
	limit := OrDefault(t.g.MaxPendingSteps, machine.DefaultMaxPendingSteps)
	got := OfTurns(t.s) + 1
	if i >= 0 && t.s.Steps[i].Status == machine.StepStatusPending {
		got--
	}
	if got <= limit {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeResourceExhausted, Reason: "MAX_PENDING_STEPS", Field: "request",
		Message: fmt.Sprintf("%d steps would be pending, at most %d: wait for answers", got, limit),
		Limit:   int64(limit), Got: int64(got),
	}
}

// checkAnswerSpace checks that the run's messages leave space for the request and at least one byte of an answer. Without
// the check, a call could be paid although no answer could be recorded. [AnswerSpace] is the largest size of the answer.
func (t *txn) checkAnswerSpace(size int64) error {
	return t.checkMessageBytes(AddCapped(size, 1))
}

// priceBound computes the cost of the maximum that the call may consume. In a run with a cost budget, a model without a
// price may be called only if the executor gives the cost. Otherwise an answer that was already paid could be refused
// because the model has no price.
func (t *txn) priceBound(c *machine.RequestModel) (err error) {
	if t.rules.costIsKnown && LimitOf(t.g, t.s).CostMicro > 0 && c.Bound.CostMicro == 0 && PriceOf(t.g, &c.Bound) == nil {
		return UnpricedError(c.Model.Model, "request.model")
	}
	c.Bound, err = t.price(c.Bound)
	return err
}

// AnswerSpace returns the largest size that a model's answer may have in this state of the run, in bytes.
func AnswerSpace(s *machine.State) int64 {
	return max(0, min(machine.MaxAnswerBytes, s.Limits.MaxMessageBytes-s.MessageBytes))
}

// modelBound checks whether a model call with the given maximum fits in the remaining budget, together with the other
// pending steps. If it does not fit, modelBound returns the status and reason with which the run ends. Otherwise it
// returns Running. A call counts as at least one token and one micro-dollar, so that no call fits in a budget that is used
// up. The step at index i is left out.
func (t *txn) modelBound(i int, mayTokens, mayCost int64) (machine.Status, string) {
	if t.overdue() {
		return machine.BudgetExhausted, "max_wall_time_sec"
	}
	if reason := t.refusedBy(i, machine.Amount{Tokens: max(1, mayTokens), CostMicro: max(1, mayCost)}, false); reason != "" {
		return machine.BudgetExhausted, reason
	}
	return machine.Running, ""
}

// denyModel refuses a model call that exceeds a budget, and ends the run or its visit.
func (t *txn) denyModel(key string, c *machine.RequestModel, status machine.Status, reason string) {
	denial := t.refusal(status, reason)
	t.record(&machine.StepRejected{Key: key, Tool: c.Model.Model, TurnSeq: t.s.Turn.Seq, Denial: *denial, Kind: machine.KindModel})
	t.outcomes = []machine.StepOutcome{{Key: key, Denial: denial}}
	t.closeFor(status, reason)
}

// issueModel makes a new step for a model call and returns its index.
func (t *txn) issueModel(key string, c *machine.RequestModel) int {
	s := t.s
	s.LastStep++
	s.ModelSteps++
	deadline := AddCapped(t.input.At, int64(ModelCalls(t.g).Timeout))
	seq := t.record(&machine.StepRequested{
		Step: s.LastStep, Key: key, Tool: c.Model.Model, TurnSeq: s.Turn.Seq, Attempt: 1, Deadline: deadline,
		Kind: machine.KindModel, Model: c.Model, Bound: c.Bound,
	})
	s.Steps = append(t.steps(), machine.ToolStep{
		Step: s.LastStep, Key: key, Tool: c.Model.Model, PayloadHash: c.Model.Hash, Status: machine.StepStatusPending, Attempt: 1,
		TurnSeq: s.Turn.Seq, RequestSeq: seq, Deadline: deadline, Model: &machine.ModelStep{},
	})
	t.knowTexts(c.Model, seq)
	t.reserveCall(len(s.Steps)-1, c)
	return len(s.Steps) - 1
}

// reserveCall stores which execution made the request for a pending model call, and the maximum that the call may consume.
func (t *txn) reserveCall(i int, c *machine.RequestModel) {
	m := t.model(i)
	m.TurnAttempt, m.By, m.Failed, m.NotBefore = c.Attempt, ValueOf(c.Assigned), 0, 0
	m.Tokens, m.CostMicro = AddCapped(c.Bound.InputTokens, c.Bound.OutputTokens), c.Bound.CostMicro
	m.Price = c.Bound.Price
	if t.rules.silenceCosts {
		m.Output, m.Bounded = c.Bound.OutputTokens, t.hasBudget() || len(t.input.Billed) > 0
	}
}

// reopenModel repeats a model call for which an earlier execution got no answer, or only an error. The step stays the same
// and gets its next attempt. If the earlier attempt was still pending, its outcome is then unknown.
func (t *txn) reopenModel(i int, c *machine.RequestModel) {
	step := &t.steps()[i]
	if step.Status == machine.StepStatusPending {
		t.recordUnknownAttempt(step, executionLost)
	}
	changed := step.PayloadHash != c.Model.Hash
	// A new request record is written in three cases: the request has changed; another turn makes the request; or the
	// request includes messages that were recorded after the earlier request of the step. The last case happens in a
	// fork that repeats steering messages of its source. So every message in an answered request is older than the
	// record of that request.
	asks := changed || step.TurnSeq != c.TurnSeq ||
		slices.ContainsFunc(c.Model.IncludedSeqs, func(seq uint64) bool { return seq > step.RequestSeq })
	step.Attempt++
	step.Deadline = AddCapped(t.input.At, int64(ModelCalls(t.g).Timeout))
	step.Status, step.AnswerSeq, step.TurnSeq = machine.StepStatusPending, 0, c.TurnSeq
	asked := &machine.StepRequested{
		Step: step.Step, Key: step.Key, Tool: c.Model.Model, TurnSeq: t.s.Turn.Seq, Attempt: step.Attempt,
		Deadline: step.Deadline, Kind: machine.KindModel, Bound: c.Bound, Changed: changed,
	}
	if asks {
		asked.Model = c.Model
	}
	seq := t.record(asked)
	if asks {
		step.PayloadHash, step.RequestSeq, step.Tool = c.Model.Hash, seq, c.Model.Model
		t.knowTexts(c.Model, seq)
	}
	if changed {
		t.model(i).ResponseID = "" // the response id belongs to the earlier, different request
	}
	t.reserveCall(i, c)
}

// knowTexts remembers that the record seq contains the texts of a request, so that later requests can refer to them.
func (t *txn) knowTexts(r *machine.ModelRequest, seq uint64) {
	for _, text := range []*machine.ModelText{&r.System, &r.Tools, &r.Parameters} {
		if text.Hash == ([32]byte{}) || text.Seq != 0 {
			continue
		}
		t.s.Texts = append(slices.Clip(t.s.Texts), machine.TextRef{Hash: text.Hash, Seq: seq})
	}
	if n := len(t.s.Texts) - machine.MaxTextRefs; n > 0 {
		t.s.Texts = slices.Clone(t.s.Texts[n:])
	}
}

// answerModel applies the outcome of a model call. If no execution waits for the answer any more, only its usage is
// counted. If the answer violates a validator, the attempt of the turn fails. After an erasure nothing is counted.
func (t *txn) answerModel(c *machine.AnswerModel) (machine.Disposition, error) {
	if t.s.Status.Terminal() && t.s.Erased != nil {
		return machine.IgnoredTerminal, nil
	}
	i := FindStep(t.s.Steps, c.Step)
	if err := First(t.checkModelStep(c.Step), t.checkAttempt(i, c), CheckUsage(c.Usage)); err != nil {
		return 0, err
	}
	if i >= 0 && t.s.Steps[i].Model.Price != nil {
		c.Usage.Price = t.s.Steps[i].Model.Price
	}
	if !t.expectsAnswer(i, c) {
		return t.settleStale(c)
	}
	used, err := t.price(t.reported(c, boundOfCall(&t.s.Steps[i])))
	if err != nil {
		return 0, err
	}
	c.Usage = used
	if c.Answer == nil {
		t.failModel(i, c)
		return machine.Accepted, nil
	}
	size := AnswerBytes(c.Answer)
	if err := t.checkAnswerSize(size); err != nil {
		return 0, err
	}
	t.s.MessageBytes += size
	seq := t.record(&machine.StepResolved{
		Step: c.Step, Tool: t.s.Steps[i].Tool, Attempt: c.Attempt, OK: true, Worker: ValueOf(c.Assigned).Worker,
		Usage: c.Usage, Kind: machine.KindModel, Answer: c.Answer,
	})
	t.settleOlder(i, c.Attempt)
	t.settleModel(c.Step, c.Usage)
	t.dropIncluded(t.s.Steps[i].RequestSeq)
	t.steps()[i].Model = &machine.ModelStep{Calls: len(c.Answer.Calls), Changed: t.s.Steps[i].Model.Changed}
	t.settleStep(i, machine.StepStatusOK, seq, [32]byte{})
	if c.Violation != nil {
		t.failValidator(c.Violation, machine.Usage{}, c.Step)
	}
	return machine.Accepted, nil
}

// expectsAnswer reports whether the step is pending and the current execution of the turn requested it. A successful
// answer is accepted for any attempt, a failure only for the current attempt.
func (t *txn) expectsAnswer(i int, c *machine.AnswerModel) bool {
	if i < 0 || t.s.Steps[i].Status != machine.StepStatusPending || t.s.Turn == nil {
		return false
	}
	step := &t.s.Steps[i]
	if !t.requestedBy(step, c.TurnSeq, c.TurnAttempt, c.Assigned) || t.s.Turn.Seq != c.TurnSeq || t.s.Turn.Attempt != c.TurnAttempt {
		return false
	}
	return c.Attempt == step.Attempt || c.Answer != nil && c.Attempt < step.Attempt
}

// checkModelStep returns an error if a step number does not belong to a model call of the run. A step of an earlier
// visit is accepted without a check, because the state no longer contains its data.
func (t *txn) checkModelStep(step uint32) error {
	if step == 0 || step > t.s.LastStep {
		return &machine.Error{
			Code: machine.CodeNotFound, Reason: "STEP_NOT_FOUND", Field: "step",
			Message: fmt.Sprintf("the run has no step %d", step), Limit: int64(t.s.LastStep), Got: int64(step),
		}
	}
	if i := FindStep(t.s.Steps, step); i >= 0 && t.s.Steps[i].Model == nil {
		return NotModel(&t.s.Steps[i], t.s.Steps[i].Key)
	}
	return nil
}

func (t *txn) checkAnswerSize(size int64) error {
	limit := AnswerSpace(t.s)
	if size <= limit {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeResourceExhausted, Reason: "ANSWER_TOO_LARGE", Field: "answer",
		Message: fmt.Sprintf("the answer holds %d bytes, at most %d are taken", size, limit), Limit: limit, Got: size,
	}
}

// failModel handles a failed model call. If the error allows it, attempts are left and the budgets cover one, the same step
// gets its next attempt. Otherwise the error is the answer of the step.
func (t *txn) failModel(i int, c *machine.AnswerModel) {
	t.settleModel(c.Step, c.Usage)
	step := &t.steps()[i]
	m := t.model(i)
	m.Failed++
	answer := &machine.StepResolved{
		Step: step.Step, Tool: step.Tool, Attempt: step.Attempt, Error: c.Error, Worker: ValueOf(c.Assigned).Worker,
		Usage: c.Usage, Kind: machine.KindModel,
	}
	calls := ModelCalls(t.g)
	if !c.Final && !isFinal(&calls.Retry, c.Error.Code) && m.Failed < calls.Retry.MaxAttempts && t.canAfford(i) {
		pause := t.stepPause(&calls.Retry, step, m.Failed, c.RetryAfter)
		answer.Next, answer.NotBefore = step.Attempt+1, AddCapped(t.input.At, int64(pause))
		answer.Deadline = AddCapped(answer.NotBefore, int64(calls.Timeout))
		step.Attempt, step.Deadline, m.NotBefore, m.ResponseID = answer.Next, answer.Deadline, answer.NotBefore, ""
		t.record(answer)
		return
	}
	seq := t.record(answer)
	t.settleStep(i, machine.StepStatusError, seq, [32]byte{})
}

// canAfford reports whether the budgets cover another attempt of the model call. If they do not, the step is answered
// with its error. An execution that makes the request again is then refused because of the budget.
func (t *txn) canAfford(i int) bool {
	m := t.s.Steps[i].Model
	_, reason := t.modelBound(i, m.Tokens, m.CostMicro)
	return reason == "" && t.overBudget() == ""
}

// updateModelCall stores the id that the provider gave to a response in progress.
func (t *txn) updateModelCall(c *machine.UpdateModelCall) (machine.Disposition, error) {
	if t.s.Status.Terminal() {
		return machine.IgnoredTerminal, nil
	}
	if err := t.checkModelStep(c.Step); err != nil {
		return 0, err
	}
	i := FindStep(t.s.Steps, c.Step)
	answer := machine.AnswerModel{TurnSeq: c.TurnSeq, TurnAttempt: c.TurnAttempt, Attempt: c.Attempt, Assigned: c.Assigned}
	if !t.expectsAnswer(i, &answer) {
		return machine.IgnoredStale, nil
	}
	if t.s.Steps[i].Model.ResponseID == c.ResponseID {
		return machine.IgnoredDuplicate, nil
	}
	t.record(&machine.ModelUpdated{Step: c.Step, Attempt: c.Attempt, ResponseID: c.ResponseID})
	t.model(i).ResponseID = c.ResponseID
	return machine.Accepted, nil
}

// dropModels cancels the pending model calls of a turn that has ended, because no execution waits for their answers.
func (t *txn) dropModels(why string) {
	for i := range t.s.Steps {
		if p := &t.s.Steps[i]; p.Model == nil || p.Status != machine.StepStatusPending {
			continue
		}
		step := &t.steps()[i]
		t.keepReservation(step)
		t.record(&machine.StepCancelled{Step: step.Step, Tool: step.Tool, Why: why, Kind: machine.KindModel})
		step.Status, step.Deadline = machine.StepStatusCancelled, 0
	}
}

// conversationThrough returns the model call up to which the messages of a completed turn are added to the
// conversation.
func (t *txn) conversationThrough(c *machine.CompleteTurn) (machine.StepRef, error) {
	if c.ConversationThroughStep == 0 {
		return machine.StepRef{}, nil
	}
	i := FindStep(t.s.Steps, c.ConversationThroughStep)
	if i < 0 || !IsTurnAnswer(&t.s.Steps[i], c.TurnSeq) {
		return machine.StepRef{}, &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "STEP_NOT_ANSWERED", Field: "conversation_through_step",
			Message: fmt.Sprintf("step %d is no answered call of a model in this turn", c.ConversationThroughStep),
		}
	}
	step := &t.s.Steps[i]
	return machine.StepRef{Step: step.Step, Request: step.RequestSeq, Answer: step.AnswerSeq}, nil
}
