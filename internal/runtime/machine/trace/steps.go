package trace

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// takeStep adds a record about a step, or the last record of the run, to the spans.
func (f *Fold) takeStep(r *machine.Record) {
	switch b := r.Body.(type) {
	case *machine.StepRequested:
		f.beginStep(r.At, b, f.executor())
	case *machine.StepDelegated:
		f.addTask(b)
	case *machine.StepResolved:
		f.resolved(r.At, b)
	case *machine.StepCancelled:
		f.endStep(r.At, b.Step, "cancelled", "")
	case *machine.Ended:
		f.finish(r.At, b)
	}
}

// executor returns the id of the span under which the spans of requested steps appear. This is the span
// of the turn, or of the visit or the run if no turn is open.
func (f *Fold) executor() SpanID {
	switch {
	case f.turn != nil:
		return f.turn.ID
	case f.visit != nil:
		return f.visit.ID
	}
	return f.root.ID
}

// beginStep begins the span of an attempt of a step. A delegation has a second span inside it, which the agent's
// trace continues.
func (f *Fold) beginStep(at int64, b *machine.StepRequested, parent SpanID) {
	if b.Kind == machine.KindModel {
		f.beginModel(at, b, parent)
		return
	}
	step := &openStep{tool: b.Tool, span: f.open(stepSpan(f.run, b.Step, b.Attempt), parent, "execute_tool "+b.Tool, at)}
	s := step.span
	s.text("gen_ai.operation.name", "execute_tool")
	s.text("gen_ai.tool.name", b.Tool)
	s.text("gen_ai.tool.type", "function")
	s.text("gen_ai.tool.call.id", machine.IdempotencyKey(f.run, b.Step))
	s.number("pawl.step", int64(b.Step))
	s.number("pawl.attempt", int64(b.Attempt))
	if b.Delegation {
		step.agent = f.open(delegationSpan(f.run, b.Step, b.Attempt), s.ID, "invoke_agent "+b.Tool, at)
		step.agent.Kind = Client
		step.agent.text("gen_ai.operation.name", "invoke_agent")
		step.agent.text("gen_ai.agent.name", b.Tool)
	}
	f.steps[b.Step] = step
}

// beginModel opens the span of an attempt of a model call.
func (f *Fold) beginModel(at int64, b *machine.StepRequested, parent SpanID) {
	step := &openStep{tool: b.Tool, kind: b.Kind, span: f.open(stepSpan(f.run, b.Step, b.Attempt), parent, "chat "+b.Tool, at)}
	s := step.span
	s.Kind = Client
	s.text("gen_ai.operation.name", "chat")
	s.text("gen_ai.request.model", b.Tool)
	s.number("pawl.step", int64(b.Step))
	s.number("pawl.attempt", int64(b.Attempt))
	f.steps[b.Step] = step
}

// addAnswer adds to the span of a model call its usage, the model and the provider's response id.
func addAnswer(s *Span, b *machine.StepResolved) {
	if b.Kind != machine.KindModel {
		return
	}
	s.addUsage(&b.Usage)
	if b.Answer != nil {
		s.text("gen_ai.provider.name", b.Answer.ProviderName)
		s.text("gen_ai.response.model", b.Answer.Model)
		s.text("gen_ai.response.id", b.Answer.ResponseID)
		s.texts("gen_ai.response.finish_reasons", b.Answer.Finish)
	}
}

// addTask adds the agent's task to the span of a delegation when the task first becomes known.
func (f *Fold) addTask(b *machine.StepDelegated) {
	step := f.steps[b.Step]
	if step == nil || step.agent == nil || b.Remote.TaskID == "" {
		return
	}
	for _, a := range step.agent.Attrs {
		if a.Key == "pawl.task.id" {
			return
		}
	}
	step.agent.text("pawl.task.id", b.Remote.TaskID)
	step.agent.text("gen_ai.conversation.id", b.Remote.ContextID)
}

// resolved ends the span of an attempt with its outcome, and begins the span of the next attempt if there is one.
func (f *Fold) resolved(at int64, b *machine.StepResolved) {
	step := f.steps[b.Step]
	if step == nil {
		return
	}
	outcome, code := "ok", ""
	switch {
	case b.Unknown:
		outcome, code = "unknown", "unknown"
	case !b.OK:
		outcome, code = "error", b.Error.Code
	}
	step.span.text("pawl.worker.id", b.Worker)
	addAnswer(step.span, b)
	f.endStep(at, b.Step, outcome, code)
	if b.Next > 0 {
		f.beginStep(at, &machine.StepRequested{Step: b.Step, Tool: step.tool, Attempt: b.Next, Delegation: step.agent != nil, Kind: step.kind}, step.span.Parent)
	}
}

// endStep ends the span of an attempt of a step. If the step is a delegation, it first ends the span of
// the delegation.
func (f *Fold) endStep(at int64, number uint32, outcome, code string) {
	step := f.steps[number]
	if step == nil {
		return
	}
	delete(f.steps, number)
	for _, s := range []*Span{step.agent, step.span} {
		if s == nil {
			continue
		}
		s.text("pawl.outcome", outcome)
		if outcome == "error" || outcome == "unknown" {
			s.fail(code)
		}
		f.end(s, at)
	}
}
