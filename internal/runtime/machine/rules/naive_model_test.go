package rules

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// This file has the part of the naive implementation for calls of models.

// vmodel has the facts of the journal about a step that is a call of a model.
type vmodel struct {
	is          bool
	turnAttempt int
	by          machine.Assignment
	failed      int
	notBefore   int64
	response    string
	tokens      int64
	cost        int64
	output      int64
	bounded     bool
	priced      bool
	price       machine.Price
	calls       int
	changed     bool
	rejected    bool
}

// modelFacts converts the facts of the machine to those of the naive implementation.
func modelFacts(m *machine.ModelStep) vmodel {
	f := vmodel{
		is: true, turnAttempt: m.TurnAttempt, by: m.By, failed: m.Failed, notBefore: m.NotBefore, response: m.ResponseID,
		tokens: m.Tokens, cost: m.CostMicro, output: m.Output, bounded: m.Bounded, calls: m.Calls, changed: m.Changed, rejected: m.Rejected,
	}
	if m.Price != nil {
		f.priced, f.price = true, *m.Price
	}
	return f
}

func (n *naive) kindOf(s *vstep) machine.StepKind {
	if s.model.is {
		return machine.KindModel
	}
	return n.kind(s.tool)
}

// executionOf returns the execution that asks or answers.
func executionOf(a *machine.Assignment) machine.Assignment {
	if a == nil {
		return machine.Assignment{}
	}
	return *a
}

// askedBy reports whether the execution made the last request of the step.
func (s *vstep) askedBy(turn uint64, attempt int, by *machine.Assignment) bool {
	return s.turn == turn && s.model.turnAttempt == attempt && s.model.by == executionOf(by)
}

func (v *view) stepOfKey(key string) *vstep {
	for i := range v.steps {
		if v.steps[i].key == key {
			return &v.steps[i]
		}
	}
	return nil
}

func (n *naive) requestModel(c machine.RequestModel, out *verdict) *machine.Error {
	if r := n.refuse(true, c.TurnSeq, c.Attempt, 0); r != nil {
		return r
	}
	v := n.view()
	key := c.Key
	if key == "" {
		key = fmt.Sprintf("%smodel/%d", v.prefix(), c.Round)
	}
	step := v.stepOfKey(key)
	for first, n := key, 2; step != nil && step.model.rejected; n++ {
		key = fmt.Sprintf("%s~%d", first, n)
		step = v.stepOfKey(key)
	}
	switch {
	case step != nil && !step.model.is:
		return &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "STEP_KIND", Field: "key"}
	case step != nil && (step.status == machine.StepStatusOK || step.askedBy(c.TurnSeq, c.Attempt, c.Assigned)):
		out.outcomes = []machine.StepOutcome{{Key: key, Step: step.n, Replayed: true, Status: step.status, AnswerSeq: step.answer}}
		if step.payload != c.Model.Hash && !step.model.changed {
			n.assign(c.Assigned)
			n.add(&machine.ModelUpdated{Step: step.n, Attempt: step.attempt, Changed: true, Hash: c.Model.Hash})
		}
		return nil
	}
	if step != nil && step.status == machine.StepStatusPending && n.onUnknown() != machine.Retry {
		n.takeOverCall(c, step, out)
		return nil
	}
	if step == nil && c.Denied != nil {
		n.assign(c.Assigned)
		out.mismatch = true
		n.failed(machine.Fault{Code: c.Denied.Code, Message: c.Denied.Message}, true, machine.Usage{}, "turn_failed", v.lastSpoken())
		return nil
	}
	bound, r := n.refuseModel(c, step)
	if r != nil {
		return r
	}
	n.assign(c.Assigned)
	again := step
	if step != nil && step.status == machine.StepStatusPending && n.keepsUnreported(n.view()) {
		again = nil
	}
	if reason := n.modelBound(bound, again); reason != "" {
		codes := map[string]string{"max_wall_time_sec": "MAX_WALL_TIME_SEC", "max_tokens": "MAX_TOKENS", "max_cost_usd": "MAX_COST_USD"}
		denial := machine.Denial{Code: codes[reason]}
		n.add(&machine.StepRejected{Key: key, Tool: c.Model.Model, TurnSeq: c.TurnSeq, Denial: denial, Kind: machine.KindModel})
		n.close(machine.BudgetExhausted, reason)
		out.outcomes = []machine.StepOutcome{{Key: key, Denial: &denial}}
		return nil
	}
	n.askModel(c, key, bound, step)
	out.outcomes = []machine.StepOutcome{{Key: key, Step: n.view().stepOfKey(key).n, Status: machine.StepStatusPending}}
	return nil
}

func (n *naive) onUnknown() machine.OnFault {
	if calls := n.g.ModelCalls; calls != nil && calls.OnUnknown != nil {
		return *calls.OnUnknown
	}
	return machine.Retry
}

// takeOverCall handles a request for a round that an earlier execution asked for and did not
// finish. The round is not asked again; its outcome is unknown.
func (n *naive) takeOverCall(c machine.RequestModel, step *vstep, out *verdict) {
	n.assign(c.Assigned)
	n.add(&machine.StepResolved{
		Step: step.n, Tool: step.tool, Attempt: step.attempt, Unknown: true, Kind: machine.KindModel,
		Error: machine.Fault{Code: "EXECUTION_LOST", Message: "the execution that made the call is over"},
	})
	now := n.view().step(step.n)
	out.outcomes = []machine.StepOutcome{{Key: step.key, Step: step.n, Replayed: true, Status: now.status, AnswerSeq: now.answer}}
	if n.onUnknown() == machine.Escalate {
		n.escalateModel(step)
		out.outcomes = []machine.StepOutcome{{Key: step.key, Denial: &machine.Denial{Code: "RUN_TERMINAL"}}}
	}
}

func (n *naive) escalateModel(step *vstep) {
	if reason := n.exceededBudget(); reason != "" {
		n.end(machine.BudgetExhausted, reason, nil, nil)
		return
	}
	n.end(machine.Escalated, "model_error:"+step.tool, nil, nil)
}

// expireModel handles a call of a model whose time has passed.
func (n *naive) expireModel(step *vstep, fault machine.Fault, out *verdict) {
	live := n.view().live(step)
	n.add(&machine.StepResolved{Step: step.n, Tool: step.tool, Attempt: step.attempt, Unknown: true, Kind: machine.KindModel, Error: fault})
	switch policy := n.onUnknown(); {
	case policy == machine.Escalate:
		out.disposition = machine.DispEscalated
		n.escalateModel(step)
	case policy == machine.Retry && live:
		n.failed(fault, true, machine.Usage{}, "turn_failed", 0)
	}
}

// live reports whether the execution that asked still works on the open turn.
func (v *view) live(step *vstep) bool {
	return v.turn != nil && !v.turn.suspended && v.turn.seq == step.turn && v.turn.attempt == step.model.turnAttempt &&
		(step.model.by == machine.Assignment{} || step.model.by == v.turn.assigned)
}

// refuseAttempt refuses an answer to an attempt that was never requested, or that another execution requested.
func (v *view) refuseAttempt(c machine.AnswerModel, step *vstep) *machine.Error {
	switch {
	case step == nil:
		return nil
	case c.Attempt < 1 || c.Attempt > step.attempt:
		return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "NO_SUCH_ATTEMPT", Field: "attempt", Limit: int64(step.attempt), Got: int64(c.Attempt)}
	case step.status != machine.StepStatusPending, c.Attempt < step.attempt, step.askedBy(c.TurnSeq, c.TurnAttempt, c.Assigned), !v.live(step):
		return nil
	case c.Assigned != nil && c.TurnSeq == v.turn.seq && c.TurnAttempt == v.turn.attempt && c.Assigned.Delivery > v.turn.assigned.Delivery:
		return nil
	case c.Assigned == nil:
		return &machine.Error{Code: machine.CodePermissionDenied, Reason: "TURN_TOKEN_STALE", Field: "turn_token"}
	}
	return &machine.Error{Code: machine.CodePermissionDenied, Reason: "STEP_NOT_HELD", Field: "step"}
}

// refuseModel makes the checks of a new call of a model, and computes the price of its bound.
func (n *naive) refuseModel(c machine.RequestModel, step *vstep) (machine.Usage, *machine.Error) {
	v := n.view()
	if r := v.refuseDeaf(c.Model); r != nil {
		return c.Bound, r
	}
	if r := n.refuseMessages(naiveRequest(c.Model) + 1); r != nil {
		return c.Bound, r
	}
	most, open := n.g.MaxPendingSteps, 1
	if most == 0 {
		most = 8
	}
	for _, other := range v.ofTurns() {
		if step == nil || other != step.n {
			open++
		}
	}
	if open > most {
		return c.Bound, &machine.Error{Code: machine.CodeResourceExhausted, Reason: "MAX_PENDING_STEPS", Field: "request", Limit: int64(most), Got: int64(open)}
	}
	_, known := n.g.Prices[c.Bound.Model]
	known = c.Bound.Model != "" && (known || c.Bound.Price != nil)
	if n.now.Semantics >= 3 && v.limit.CostMicro > 0 && !known && c.Bound.CostMicro == 0 {
		return c.Bound, &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "MODEL_UNPRICED", Field: "request.model"}
	}
	if r := refuseUsage(c.Bound); r != nil {
		return c.Bound, r
	}
	return n.addPrice(c.Bound)
}

// modelBound returns the bound that the call would exceed, or "". It adds what was used, what
// pending calls may take, and what this call may take.
func (n *naive) modelBound(bound machine.Usage, step *vstep) string {
	v := n.view()
	if v.deadline > 0 && n.now.At >= v.deadline {
		return "max_wall_time_sec"
	}
	return v.missingBudget(machine.Amount{Tokens: max(1, bound.InputTokens+bound.OutputTokens), CostMicro: max(1, bound.CostMicro)}, step)
}

func (n *naive) modelCalls() (timeout int64, retry machine.RetryPolicy) {
	timeout = int64(600 * time.Second)
	if calls := n.g.ModelCalls; calls != nil {
		retry = calls.Retry
		if calls.Timeout > 0 {
			timeout = int64(calls.Timeout)
		}
	}
	if retry.MaxAttempts == 0 {
		retry.MaxAttempts = 3
	}
	return timeout, retry
}

// askModel requests a new step, or the next attempt of a step without an answer.
func (n *naive) askModel(c machine.RequestModel, key string, bound machine.Usage, step *vstep) {
	timeout, _ := n.modelCalls()
	asked := machine.StepRequested{
		Step: n.view().lastStep + 1, Key: key, Tool: c.Model.Model, TurnSeq: c.TurnSeq, Attempt: 1,
		Deadline: n.now.At + timeout, Kind: machine.KindModel, Model: c.Model, Bound: bound,
	}
	if step != nil {
		if step.status == machine.StepStatusPending {
			n.add(&machine.StepResolved{
				Step: step.n, Tool: step.tool, Attempt: step.attempt, Unknown: true, Kind: machine.KindModel,
				Error: machine.Fault{Code: "EXECUTION_LOST", Message: "the execution that made the call is over"},
			})
		}
		asked.Step, asked.Attempt, asked.Changed = step.n, step.attempt+1, step.payload != c.Model.Hash
		said := slices.ContainsFunc(c.Model.IncludedSeqs, func(seq uint64) bool { return seq > step.asked })
		if !asked.Changed && !said && step.turn == c.TurnSeq {
			asked.Model = nil
		}
	}
	n.add(&asked)
}

func (v *view) refuseModelStep(step uint32) *machine.Error {
	switch {
	case step == 0 || step > v.lastStep:
		return &machine.Error{Code: machine.CodeNotFound, Reason: "STEP_NOT_FOUND", Field: "step", Limit: int64(v.lastStep), Got: int64(step)}
	case v.step(step) != nil && !v.step(step).model.is:
		return &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "STEP_KIND", Field: "key"}
	}
	return nil
}

// open reports whether the call is pending, and the input comes from the execution that
// asked and that has the turn.
func (v *view) open(step *vstep, turn uint64, attempt int, by *machine.Assignment) bool {
	return step != nil && step.status == machine.StepStatusPending && v.turn != nil &&
		v.turn.seq == turn && v.turn.attempt == attempt && step.askedBy(turn, attempt, by)
}

func (n *naive) answerModel(c machine.AnswerModel, out *verdict) {
	v := n.view()
	step := v.step(c.Step)
	if out.refusal = v.refuseModelStep(c.Step); out.refusal != nil {
		return
	}
	if out.refusal = v.refuseAttempt(c, step); out.refusal != nil {
		return
	}
	if step != nil && step.model.priced {
		c.Usage.Price = &step.model.price
	}
	if out.refusal = refuseUsage(c.Usage); out.refusal != nil {
		return
	}
	good := c.Answer != nil
	if !v.open(step, c.TurnSeq, c.TurnAttempt, c.Assigned) || !good && c.Attempt < step.attempt {
		n.lateAnswer(c, out)
		return
	}
	used, unpriced := n.addPrice(v.boundUsage(c, machine.UnreportedUsage{Bound: machine.Amount{Tokens: step.model.tokens, CostMicro: step.model.cost}, Output: step.model.output}))
	if out.refusal = unpriced; unpriced != nil {
		return
	}
	r := machine.StepResolved{Step: c.Step, Tool: step.tool, Attempt: c.Attempt, Worker: executionOf(c.Assigned).Worker, Usage: used, Kind: machine.KindModel}
	if !good {
		r.Error = c.Error
		n.modelFailed(c, step, r)
		return
	}
	if size, room := naiveAnswer(c.Answer), min(1<<20, n.start().Limits.MaxMessageBytes-v.bytes); size > room {
		out.refusal = &machine.Error{Code: machine.CodeResourceExhausted, Reason: "ANSWER_TOO_LARGE", Field: "answer", Limit: room, Got: size}
		return
	}
	r.OK, r.Answer = true, c.Answer
	n.add(&r)
	if c.Violation != nil {
		n.rejectTurn(c.Violation, machine.Usage{}, c.Step)
	}
}

// lateAnswer handles an answer to a call that is over. The answer is ignored, but the
// usage that it reports counts.
func (n *naive) lateAnswer(c machine.AnswerModel, out *verdict) {
	out.disposition = machine.IgnoredStale
	if n.view().ended != nil {
		out.disposition = machine.IgnoredTerminal
	}
	was := n.view()
	bound, owed := n.toldOf(was, c.Step, c.Attempt)
	used := c.Usage
	if owed {
		used = was.boundUsage(c, bound)
	}
	if priced, r := n.addPrice(used); r == nil {
		used = priced
	}
	if used.InputTokens+used.OutputTokens+used.CostMicro+int64(used.ToolCalls) == 0 && !owed {
		return
	}
	if was.ended != nil && n.leased() {
		return
	}
	note := machine.ModelUpdated{Step: c.Step, Attempt: c.Attempt, Usage: used}
	if c.Answer != nil {
		note.ResponseID = c.Answer.ResponseID
	}
	n.add(&note)
}

// modelFailed counts what a failed attempt consumed, and then requests the next attempt if there may be one.
func (n *naive) modelFailed(c machine.AnswerModel, step *vstep, r machine.StepResolved) {
	timeout, retry := n.modelCalls()
	n.add(&r)
	failed := step.model.failed + 1
	if c.Final || slices.Contains(retry.NonRetryable, c.Error.Code) || failed >= retry.MaxAttempts || n.exceededBudget() != "" ||
		n.modelBound(machine.Usage{InputTokens: step.model.tokens, CostMicro: step.model.cost}, step) != "" {
		return
	}
	longest := int64(retry.Max)
	if longest == 0 {
		longest = int64(60 * time.Second)
	}
	pause := max(n.pause(&retry, uint64(step.n), step.attempt, failed), min(int64(c.RetryAfter), longest))
	r.Next, r.NotBefore, r.Deadline = step.attempt+1, n.now.At+pause, n.now.At+pause+timeout
}

func (n *naive) noteModel(c machine.UpdateModelCall, out *verdict) {
	v := n.view()
	step := v.step(c.Step)
	if v.ended != nil {
		out.disposition = machine.IgnoredTerminal
		return
	}
	if out.refusal = v.refuseModelStep(c.Step); out.refusal != nil {
		return
	}
	switch {
	case !v.open(step, c.TurnSeq, c.TurnAttempt, c.Assigned), c.Attempt != step.attempt:
		out.disposition = machine.IgnoredStale
	case step.model.response == c.ResponseID:
		out.disposition = machine.IgnoredDuplicate
	default:
		n.add(&machine.ModelUpdated{Step: c.Step, Attempt: c.Attempt, ResponseID: c.ResponseID})
	}
}

// namedAnswer returns the answer of a model that the completion of a turn names.
func (n *naive) namedAnswer(c machine.CompleteTurn) (machine.StepRef, *machine.Error) {
	if c.ConversationThroughStep == 0 {
		return machine.StepRef{}, nil
	}
	step := n.view().step(c.ConversationThroughStep)
	if step == nil || !step.isAnswerOf(c.TurnSeq) {
		return machine.StepRef{}, &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "STEP_NOT_ANSWERED", Field: "conversation_through_step"}
	}
	return machine.StepRef{Step: step.n, Request: step.asked, Answer: step.answer}, nil
}

// isAnswerOf reports whether the step is an answer of a model in the turn, and was not rejected.
func (s *vstep) isAnswerOf(turn uint64) bool {
	return s.model.is && s.status == machine.StepStatusOK && s.turn == turn && !s.model.rejected
}

// rejectedAnswers returns the answers that a rejection takes: the rejected one, and the
// later ones of the same turn.
func (v *view) rejectedAnswers(step uint32) (of []*vstep) {
	for i := range v.steps {
		if s := &v.steps[i]; s.isAnswerOf(s.turn) && (s.n == step || s.n > step && s.turn == v.turn.seq) {
			of = append(of, s)
		}
	}
	return of
}

// rejectable reports whether no step makes a call of one of the rejected answers.
func (v *view) rejectable(step uint32) bool {
	for _, answer := range v.rejectedAnswers(step) {
		for i := range v.steps {
			if v.steps[i].call.Step == answer.n {
				return false
			}
		}
	}
	return true
}

// reject marks the answers that a failed turn rejects.
func (v *view) reject(f *machine.TurnFailed) {
	if f.Rejected == 0 {
		return
	}
	for _, answer := range v.rejectedAnswers(f.Rejected) {
		answer.model.rejected = true
	}
}

// callKey returns the key of the step that makes a call of a model's answer.
func (v *view) callKey(call machine.CallRef) (string, *machine.Error) {
	step := v.step(call.Step)
	if step == nil || !step.model.is || step.status != machine.StepStatusOK {
		return "", &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "STEP_NOT_ANSWERED", Field: "call.model_step"}
	}
	if call.Index < 0 || call.Index >= step.model.calls {
		return "", &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "NO_SUCH_CALL", Field: "call.index", Limit: int64(step.model.calls) - 1, Got: int64(call.Index),
		}
	}
	return fmt.Sprintf("%s/%d", step.key, call.Index), nil
}

// readModel reads a record about a call of a model, and reports whether it is one.
func (n *naive) readModel(v *view, c machine.Command, r machine.Record) bool {
	switch b := r.Body.(type) {
	case *machine.StepRequested:
		if b.Kind != machine.KindModel {
			return false
		}
		v.readAsked(c.(machine.RequestModel), b, r.Seq)
	case *machine.StepResolved:
		if b.Kind != machine.KindModel {
			return false
		}
		if s := v.step(b.Step); b.Unknown || b.OK && b.Attempt != s.attempt {
			n.owe(v, s)
		}
		if b.OK {
			n.toldOf(v, b.Step, b.Attempt)
		}
		v.readAnswered(b, r.Seq)
		if asked, ok := c.(machine.RequestModel); ok {
			step := v.step(b.Step)
			step.turn, step.model.turnAttempt, step.model.by, step.model.failed = asked.TurnSeq, asked.Attempt, executionOf(asked.Assigned), 0
			v.turn.notBefore = 0
		}
	case *machine.ModelUpdated:
		v.spend(b.Usage)
		if _, late := c.(machine.AnswerModel); late || b.Usage != (machine.Usage{}) {
			n.toldOf(v, b.Step, b.Attempt)
		}
		if b.Changed {
			v.step(b.Step).model.changed, v.turn.notBefore = true, 0
		}
		if _, told := c.(machine.UpdateModelCall); told && b.Usage == (machine.Usage{}) {
			v.step(b.Step).model.response = b.ResponseID
		}
	default:
		return false
	}
	return true
}

func (v *view) readAsked(c machine.RequestModel, b *machine.StepRequested, seq uint64) {
	v.turn.notBefore = 0
	v.bytes += naiveRequest(c.Model)
	if b.Step > v.lastStep {
		v.lastStep = b.Step
		v.steps = append(v.steps, vstep{n: b.Step, key: b.Key, model: vmodel{is: true}})
	}
	step := v.step(b.Step)
	if b.Model != nil {
		step.payload, step.tool, step.asked = b.Model.Hash, b.Tool, seq
		for _, text := range []machine.ModelText{b.Model.System, b.Model.Tools, b.Model.Parameters} {
			if text.Hash != [32]byte{} && text.Seq == 0 {
				v.texts = append(v.texts, machine.TextRef{Hash: text.Hash, Seq: seq})
			}
		}
		v.texts = v.texts[max(0, len(v.texts)-32):]
	}
	step.status, step.attempt, step.deadline, step.answer, step.turn = machine.StepStatusPending, b.Attempt, b.Deadline, 0, b.TurnSeq
	response, changed := step.model.response, step.model.changed
	if b.Changed {
		response = ""
	}
	step.model = vmodel{
		is: true, turnAttempt: c.Attempt, by: executionOf(c.Assigned), response: response, changed: changed,
		tokens: b.Bound.InputTokens + b.Bound.OutputTokens, cost: b.Bound.CostMicro,
	}
	if v.version >= 5 {
		step.model.output, step.model.bounded = b.Bound.OutputTokens, v.limit.Tokens+v.limit.CostMicro > 0
	}
	if b.Bound.Price != nil {
		step.model.priced, step.model.price = true, *b.Bound.Price
	}
}

func (v *view) readAnswered(b *machine.StepResolved, seq uint64) {
	v.spend(b.Usage)
	step := v.step(b.Step)
	if !b.OK && !b.Unknown {
		step.model.failed++
	}
	switch {
	case b.OK:
		v.markHeard(step.asked)
		v.bytes += naiveAnswer(b.Answer)
		step.status = machine.StepStatusOK
		step.model = vmodel{is: true, calls: len(b.Answer.Calls), changed: step.model.changed}
	case b.Next > 0:
		step.attempt, step.deadline, step.model.notBefore, step.model.response = b.Next, b.Deadline, b.NotBefore, ""
		return
	default:
		step.status = machine.StepStatusError
	}
	step.answer, step.deadline = seq, 0
}

func naiveMessage(m machine.Message) int64 {
	return naiveBytes(m.Parts) + int64(len(m.ToolCalls)+len(m.ToolCallID)+len(m.Provider)+len(m.Refusal))
}

func naiveRequest(r *machine.ModelRequest) int64 {
	sum := int64(len(r.System.Text) + len(r.Tools.Text) + len(r.Parameters.Text))
	for _, m := range r.Messages {
		if m.Message != nil {
			sum += naiveMessage(*m.Message)
		}
	}
	return sum
}

func naiveAnswer(a *machine.ModelAnswer) int64 {
	sum := naiveBytes(a.Parts) + int64(len(a.Refusal)+len(a.Provider))
	for _, c := range a.Calls {
		sum += int64(len(c.ID + c.Name + c.Arguments))
	}
	return sum
}
