package invariant

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// Invariants of model calls, in one state and between two states.

// requiredMessages checks that the messages which the next model request must contain are recorded, in
// order, and that their message rows exist.
func (c *checker) requiredMessages() {
	last, next := uint64(0), uint64(0)
	for _, v := range c.s.Conversations {
		if v.State == c.s.Current {
			next = v.Next
		}
	}
	for _, h := range c.s.RequiredMessages {
		c.require(h.Seq > last && h.Seq <= c.s.Seq, "heeds %v", c.s.RequiredMessages)
		c.require(h.Row <= next && (h.Row == 0 || !h.Notice && !h.Later) && (h.Notice || !h.Once), "heed %+v", h)
		last = h.Seq
	}
}

func (c *checker) models() {
	for i := range c.s.Steps {
		switch p := &c.s.Steps[i]; {
		case p.Model != nil:
			c.model(p)
		case p.Call != nil:
			c.modelCallRef(p)
		}
	}
	c.require(int64(c.s.ModelSteps) <= int64(c.s.LastStep)-int64(rules.TakenBy(c.s).Steps), "%d calls of models among %d steps", c.s.ModelSteps, c.s.LastStep)
	c.require(len(c.s.Texts) <= machine.MaxTextRefs, "%d texts are known", len(c.s.Texts))
}

// model checks that an answered MODEL step reserves nothing any more, and that a pending one belongs to
// the open turn.
func (c *checker) model(p *machine.ToolStep) {
	m, turn := p.Model, c.s.Turn
	c.require(!p.Delegation && p.Remote == nil && p.Call == nil, "step %d is of a model and of an agent", p.Step)
	c.require(p.AnswerSeq == 0 || p.AnswerSeq >= p.RequestSeq, "step %d is answered by record %d, asked by %d", p.Step, p.AnswerSeq, p.RequestSeq)
	switch p.Status {
	case machine.StepStatusOK:
		c.require(reflect.DeepEqual(*m, machine.ModelStep{Calls: m.Calls, Changed: m.Changed, Rejected: m.Rejected}), "step %d is answered and holds %+v", p.Step, *m)
	case machine.StepStatusPending:
		c.require(turn != nil && p.TurnSeq == turn.Seq && m.TurnAttempt >= 1 && m.TurnAttempt <= turn.Attempt, "step %d waits for an execution that is not the open turn's", p.Step)
		c.require(m.Failed < rules.ModelCalls(c.g).Retry.MaxAttempts && m.Failed < p.Attempt, "step %d waits after %d failures", p.Step, m.Failed)
		c.require(m.NotBefore < p.Deadline, "step %d begins at %d and ends at %d", p.Step, m.NotBefore, p.Deadline)
	}
	c.require(!m.Rejected || p.Status == machine.StepStatusOK, "step %d is rejected without an answer", p.Step)
	c.require(m.Calls == 0 || p.Status == machine.StepStatusOK, "step %d has %d calls without an answer", p.Step, m.Calls)
}

// modelCallRef checks that a step requested by a model refers to a call in that model's answer.
func (c *checker) modelCallRef(p *machine.ToolStep) {
	i := rules.FindStep(c.s.Steps, p.Call.Step)
	if i < 0 || c.s.Steps[i].Model == nil || c.s.Steps[i].Status != machine.StepStatusOK || p.Call.Step >= p.Step {
		c.require(false, "step %d is call %d of step %d, which is no answer of a model", p.Step, p.Call.Index, p.Call.Step)
		return
	}
	key, err := rules.CallKey(c.s.Steps, p.Call, "call")
	c.require(err == nil && key == p.Key, "step %d is call %d of step %d with the key %q", p.Step, p.Call.Index, p.Call.Step, p.Key)
}

// CheckChange checks that the records explain the change from one state to the next. Recorded answers
// must not change, and the increase of the consumption must be the sum in the records. before is nil at
// the beginning of a run. CheckChange is for tests and for the simulation.
func CheckChange(before, after *machine.State, records []machine.Record) error {
	c := &checker{s: after}
	if before == nil {
		before = &machine.State{VisitSeq: after.VisitSeq}
	}
	// want.InputTokens is the sum of the input and output tokens in the records.
	want, estimated := machine.Usage{}, before.EstimatedTokens
	models := before.ModelSteps
	for i := range records {
		used, calls := machine.UsageOf(records[i].Body), callsOf(records[i].Body)
		want.InputTokens = rules.AddCapped(want.InputTokens, rules.AddCapped(used.InputTokens, used.OutputTokens))
		want.CostMicro = rules.AddCapped(want.CostMicro, used.CostMicro)
		if used.Estimated {
			estimated = rules.AddCapped(estimated, rules.AddCapped(used.InputTokens, used.OutputTokens))
		}
		want.ToolCalls = int(rules.AddCapped(int64(want.ToolCalls), rules.AddCapped(int64(used.ToolCalls), calls)))
		if b, ok := records[i].Body.(*machine.StepRequested); ok && b.Kind == machine.KindModel && b.Attempt == 1 {
			models++
		}
	}
	c.require(after.Tokens == rules.AddCapped(before.Tokens, want.InputTokens), "%d tokens, then %d; the records have %d", before.Tokens, after.Tokens, want.InputTokens)
	c.require(after.CostMicro == rules.AddCapped(before.CostMicro, want.CostMicro), "%d micro-dollars, then %d; the records have %d", before.CostMicro, after.CostMicro, want.CostMicro)
	c.require(int64(after.ToolCalls) == rules.AddCapped(int64(before.ToolCalls), int64(want.ToolCalls)), "%d tool calls, then %d; the records have %d", before.ToolCalls, after.ToolCalls, want.ToolCalls)
	c.require(after.EstimatedTokens == estimated, "%d estimated tokens, then %d; the records have %d", before.EstimatedTokens, after.EstimatedTokens, estimated)
	c.require(after.ModelSteps == models, "%d calls of models, then %d; the records say %d", before.ModelSteps, after.ModelSteps, models)
	c.checkAnswersKept(before, after)
	return c.found()
}

// CheckSettled checks that what an input says that it settled is what the operator's accounts count of the change from one
// state to the next. before is nil at the beginning of a run. CheckSettled is for tests and for the simulation.
func CheckSettled(before *machine.State, b *machine.Batch) error {
	c := &checker{s: b.State}
	var sum machine.UsageSum
	for i := range b.Settled {
		sum.Add(b.Settled[i].UsageSum)
	}
	tokens, cost := rules.SettledInAccounts(before)
	has, hasCost := rules.SettledInAccounts(b.State)
	c.require(has == rules.AddCapped(tokens, rules.AddCapped(sum.InputTokens, sum.OutputTokens)), "%d tokens, then %d; %d were settled", tokens, has, sum.InputTokens+sum.OutputTokens)
	c.require(hasCost == rules.AddCapped(cost, sum.CostMicro), "%d micro-dollars, then %d; %d were settled", cost, hasCost, sum.CostMicro)
	return c.found()
}

// checkAnswersKept checks that answered steps and the data of their model calls did not change while the run stayed
// in one visit. Only the marks Changed and Rejected may be added to an answered model call.
func (c *checker) checkAnswersKept(before, after *machine.State) {
	if before.VisitSeq != after.VisitSeq {
		return
	}
	for i := range before.Steps {
		old := &before.Steps[i]
		at := rules.FindStep(after.Steps, old.Step)
		if at < 0 {
			c.require(false, "step %d is gone", old.Step)
			continue
		}
		is := after.Steps[at]
		c.require(is.Key == old.Key && is.Kind() == old.Kind() && is.Attempt >= old.Attempt, "step %d was %+v, is %+v", old.Step, *old, is)
		if old.Status != machine.StepStatusOK && (old.Model != nil || old.Status == machine.StepStatusPending) {
			continue
		}
		if old.Model != nil {
			m := *old.Model
			m.Changed, m.Rejected = is.Model.Changed, m.Rejected || is.Model.Rejected
			c.require(m == *is.Model, "step %d said %+v, says %+v", old.Step, *old.Model, *is.Model)
			is.Model = old.Model
		}
		c.require(reflect.DeepEqual(*old, is), "step %d was answered: %+v, is %+v", old.Step, *old, is)
	}
}

// callsOf returns 1 if the record is itself a tool call, otherwise 0.
func callsOf(b machine.Body) int64 {
	r, ok := b.(*machine.StepRequested)
	if ok && r.Kind != machine.KindModel && (r.About == nil || r.About.Role == machine.RoleCompensate) {
		return 1
	}
	return 0
}

// found returns one error with all faults that the checker found, or nil.
func (c *checker) found() error {
	if len(c.faults) == 0 {
		return nil
	}
	return fmt.Errorf("run %s at %d: %w", c.s.RunID, c.s.Seq, errors.Join(c.faults...))
}
