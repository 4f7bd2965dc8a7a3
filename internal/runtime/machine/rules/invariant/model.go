package invariant

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// Invariants of model calls, in one state and between two states.

// requiredMessages checks that the required messages of the state are recorded, in order, and at their
// given rows.
func (c *checker) requiredMessages() {
	last, next := uint64(0), uint64(0)
	for _, v := range c.s.Conversations {
		if v.State == c.s.Current {
			next = v.Next
		}
	}
	for _, h := range c.s.RequiredMessages {
		c.must(h.Seq > last && h.Seq <= c.s.Seq, "heeds %v", c.s.RequiredMessages)
		c.must(h.Row <= next && (h.Row == 0 || !h.Notice && !h.Later) && (h.Notice || !h.Once), "heed %+v", h)
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
	c.must(int64(c.s.ModelSteps) <= int64(c.s.LastStep)-int64(rules.TakenBy(c.s).Steps), "%d calls of models among %d steps", c.s.ModelSteps, c.s.LastStep)
	c.must(len(c.s.Texts) <= machine.MaxTextRefs, "%d texts are known", len(c.s.Texts))
}

// model checks that an answered MODEL step has no bound, and that a pending one belongs to the open turn.
func (c *checker) model(p *machine.ToolStep) {
	m, turn := p.Model, c.s.Turn
	c.must(!p.Delegation && p.Remote == nil && p.Call == nil, "step %d is of a model and of an agent", p.Step)
	c.must(p.AnswerSeq == 0 || p.AnswerSeq >= p.RequestSeq, "step %d is answered by record %d, asked by %d", p.Step, p.AnswerSeq, p.RequestSeq)
	switch p.Status {
	case machine.StepStatusOK:
		c.must(reflect.DeepEqual(*m, machine.ModelStep{Calls: m.Calls, Changed: m.Changed, Rejected: m.Rejected}), "step %d is answered and holds %+v", p.Step, *m)
	case machine.StepStatusPending:
		c.must(turn != nil && p.TurnSeq == turn.Seq && m.TurnAttempt >= 1 && m.TurnAttempt <= turn.Attempt, "step %d waits for an execution that is not the open turn's", p.Step)
		c.must(m.Failed < rules.ModelCalls(c.g).Retry.MaxAttempts && m.Failed < p.Attempt, "step %d waits after %d failures", p.Step, m.Failed)
		c.must(m.NotBefore < p.Deadline, "step %d begins at %d and ends at %d", p.Step, m.NotBefore, p.Deadline)
	}
	c.must(!m.Rejected || p.Status == machine.StepStatusOK, "step %d is rejected without an answer", p.Step)
	c.must(m.Calls == 0 || p.Status == machine.StepStatusOK, "step %d has %d calls without an answer", p.Step, m.Calls)
}

// modelCallRef checks that a step requested by a model refers to a call in that model's answer.
func (c *checker) modelCallRef(p *machine.ToolStep) {
	i := rules.FindStep(c.s.Steps, p.Call.Step)
	if i < 0 || c.s.Steps[i].Model == nil || c.s.Steps[i].Status != machine.StepStatusOK || p.Call.Step >= p.Step {
		c.must(false, "step %d is call %d of step %d, which is no answer of a model", p.Step, p.Call.Index, p.Call.Step)
		return
	}
	key, err := rules.CallKey(c.s.Steps, p.Call, "call")
	c.must(err == nil && key == p.Key, "step %d is call %d of step %d with the key %q", p.Step, p.Call.Index, p.Call.Step, p.Key)
}

// CheckChange checks that the records explain the change from one state to the next. Answers must not
// change, and the consumption must be the sum in the records. before is nil at the beginning of a run.
// CheckChange is for tests and for the simulation.
func CheckChange(before, after *machine.State, records []machine.Record) error {
	c := &checker{s: after}
	if before == nil {
		before = &machine.State{VisitSeq: after.VisitSeq}
	}
	want, guessed := machine.Usage{}, before.EstimatedTokens
	models := before.ModelSteps
	for i := range records {
		used, calls := usageOf(records[i].Body)
		want.InputTokens = rules.AddCapped(want.InputTokens, rules.AddCapped(used.InputTokens, used.OutputTokens))
		want.CostMicro = rules.AddCapped(want.CostMicro, used.CostMicro)
		if used.Estimated {
			guessed = rules.AddCapped(guessed, rules.AddCapped(used.InputTokens, used.OutputTokens))
		}
		want.ToolCalls = int(rules.AddCapped(int64(want.ToolCalls), rules.AddCapped(int64(used.ToolCalls), calls)))
		if b, ok := records[i].Body.(*machine.StepRequested); ok && b.Kind == machine.KindModel && b.Attempt == 1 {
			models++
		}
	}
	c.must(after.Tokens == rules.AddCapped(before.Tokens, want.InputTokens), "%d tokens, then %d; the records have %d", before.Tokens, after.Tokens, want.InputTokens)
	c.must(after.CostMicro == rules.AddCapped(before.CostMicro, want.CostMicro), "%d micro-dollars, then %d; the records have %d", before.CostMicro, after.CostMicro, want.CostMicro)
	c.must(int64(after.ToolCalls) == rules.AddCapped(int64(before.ToolCalls), int64(want.ToolCalls)), "%d tool calls, then %d; the records have %d", before.ToolCalls, after.ToolCalls, want.ToolCalls)
	c.must(after.EstimatedTokens == guessed, "%d estimated tokens, then %d; the records have %d", before.EstimatedTokens, after.EstimatedTokens, guessed)
	c.must(after.ModelSteps == models, "%d calls of models, then %d; the records say %d", before.ModelSteps, after.ModelSteps, models)
	c.kept(before, after)
	return c.found()
}

// kept checks that answered steps, and calls that a model requested, did not change within a visit.
func (c *checker) kept(before, after *machine.State) {
	if before.VisitSeq != after.VisitSeq {
		return
	}
	for i := range before.Steps {
		was := &before.Steps[i]
		at := rules.FindStep(after.Steps, was.Step)
		if at < 0 {
			c.must(false, "step %d is gone", was.Step)
			continue
		}
		is := after.Steps[at]
		c.must(is.Key == was.Key && is.Kind() == was.Kind() && is.Attempt >= was.Attempt, "step %d was %+v, is %+v", was.Step, *was, is)
		if was.Status != machine.StepStatusOK && (was.Model != nil || was.Status == machine.StepStatusPending) {
			continue
		}
		if was.Model != nil {
			m := *was.Model
			m.Changed, m.Rejected = is.Model.Changed, m.Rejected || is.Model.Rejected
			c.must(m == *is.Model, "step %d said %+v, says %+v", was.Step, *was.Model, *is.Model)
			is.Model = was.Model
		}
		c.must(reflect.DeepEqual(*was, is), "step %d was answered: %+v, is %+v", was.Step, *was, is)
	}
}

// usageOf returns the usage in a record. calls is 1 if the record itself is a tool call, otherwise 0.
func usageOf(b machine.Body) (used machine.Usage, calls int64) {
	switch b := b.(type) {
	case *machine.TurnCompleted:
		return b.Usage, 0
	case *machine.TurnFailed:
		return b.Usage, 0
	case *machine.StepResolved:
		return b.Usage, 0
	case *machine.ModelUpdated:
		return b.Usage, 0
	case *machine.StepCancelled:
		return b.Usage, 0
	case *machine.StepRequested:
		if b.Kind != machine.KindModel && (b.About == nil || b.About.Role == machine.RoleCompensate) {
			return used, 1
		}
	}
	return used, 0
}

// found returns all faults that the checker found.
func (c *checker) found() error {
	if len(c.faults) == 0 {
		return nil
	}
	return fmt.Errorf("run %s at %d: %w", c.s.RunID, c.s.Seq, errors.Join(c.faults...))
}
