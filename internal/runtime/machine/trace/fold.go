package trace

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Fold computes the trace spans of one run from its records, which must be added in order from the first one. There are
// spans for the run, each visit, each attempt of a turn, each attempt of a step, and each delegation. Fold returns a
// span when the record that ends it is added.
type Fold struct {
	run string
	ctx Context
	// seq is the seq of the record that was added last.
	seq   uint64
	root  *Span
	visit *Span
	turn  *Span
	steps map[uint32]*openStep
	ended []Span
}

// openStep is the span of an attempt of a pending step.
type openStep struct {
	span *Span
	// agent is the span of the agent's work. It is nil if the step is not a delegation.
	agent *Span
	tool  string
	kind  machine.StepKind
}

// NewFold returns the Fold of a run before its first record. It reads only the parts of s that never change. It returns
// false if the run has no trace, or if its trace is not sampled.
func NewFold(s *machine.State) (*Fold, bool) {
	ctx, ok := ContextOf(s)
	if !ok || !ctx.Sampled {
		return nil, false
	}
	f := &Fold{run: s.RunID, ctx: ctx, steps: make(map[uint32]*openStep)}
	f.root = f.open(runSpan(s.RunID), SpanID{}, "run "+s.PackID, s.CreatedAt)
	f.describe(s)
	return f, true
}

// describe adds attributes of the run to the root span.
func (f *Fold) describe(s *machine.State) {
	if f.ctx.Span != f.root.ID {
		f.root.Parent, f.root.Kind = f.ctx.Span, Server
	}
	f.root.text("pawl.pack.id", s.PackID)
	f.root.text("pawl.pack.version", s.PackVersion)
	f.root.text("pawl.pack.digest", s.Digest)
	if s.Agent != "" {
		f.root.Name = "invoke_agent " + s.Agent
		f.root.text("gen_ai.operation.name", "invoke_agent")
		f.root.text("gen_ai.agent.name", s.Agent)
	}
	if s.Task != nil {
		f.root.text("gen_ai.conversation.id", s.Task.ContextID)
	}
	if s.Parent != nil {
		f.root.text("pawl.parent.run.id", s.Parent.RunID)
		f.root.number("pawl.parent.step", int64(s.Parent.Step))
	}
}

// Seq returns the seq of the record that was added last.
func (f *Fold) Seq() uint64 { return f.seq }

// Done reports whether the run has ended.
func (f *Fold) Done() bool { return f.root == nil }

// Take adds the record with the seq after [Fold.Seq]. It returns the spans that the record ends.
func (f *Fold) Take(r *machine.Record) []Span {
	f.seq, f.ended = r.Seq, nil
	if f.Done() {
		return nil
	}
	switch b := r.Body.(type) {
	case *machine.Transition:
		f.enter(r, b)
	case *machine.Origin:
		f.startForked(r, b)
	case *machine.TurnOpened:
		f.beginTurn(r.At, r.Seq, 1, b.State)
	case *machine.TurnAssigned:
		f.assigned(b)
	case *machine.TurnCompleted:
		f.completed(r.At, b)
	case *machine.TurnFailed:
		f.failed(r.At, b)
	case *machine.TurnAbandoned:
		f.endTurn(r.At, "abandoned", "")
	case *machine.Stopped:
		f.endTurn(r.At, "stopped", "")
	default:
		f.takeStep(r)
	}
	return f.ended
}

// open begins a span.
func (f *Fold) open(id, parent SpanID, name string, at int64) *Span {
	s := &Span{Trace: f.ctx.Trace, ID: id, Parent: parent, Name: name, Kind: Internal, Start: at}
	s.text("pawl.run.id", f.run)
	return s
}

// end finishes a span. If s is nil, the span is not open and end does nothing.
func (f *Fold) end(s *Span, at int64) {
	if s != nil {
		s.End = max(at, s.Start)
		f.ended = append(f.ended, *s)
	}
}

func (f *Fold) enter(r *machine.Record, b *machine.Transition) {
	f.endVisit(r.At, b.Event)
	f.visit = f.open(visitSpan(f.run, r.Seq), f.root.ID, "visit "+b.To, r.At)
	f.visit.text("pawl.state", b.To)
	f.visit.number("pawl.visit", int64(b.Visit))
	f.visit.number("pawl.seq", int64(r.Seq))
	f.visit.text("pawl.from", b.From)
	for _, redirect := range b.Redirects {
		f.visit.text("pawl.refused."+redirect.State, redirect.Guard)
	}
	if !b.AwaitsInput {
		f.beginTurn(r.At, r.Seq, 1, b.To)
	}
}

// endVisit ends the span of the visit, and all open spans in it.
func (f *Fold) endVisit(at int64, event string) {
	f.endTurn(at, "abandoned", "")
	for _, step := range f.pending() {
		f.endStep(at, step, "cancelled", "")
	}
	if f.visit != nil {
		f.visit.text("pawl.event", event)
	}
	f.end(f.visit, at)
	f.visit = nil
}

// pending returns the pending steps, in order.
func (f *Fold) pending() []uint32 {
	var numbers []uint32
	for n := range f.steps {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return numbers
}

// startForked starts the spans of a forked run, which begins in the middle of the visit that it copied. A link refers to the
// span of that visit in the source's trace, or to the span of the source if the source has no trace context.
func (f *Fold) startForked(r *machine.Record, b *machine.Origin) {
	link := Link{Trace: Root(b.RunID).Trace, Span: runSpan(b.RunID), Attrs: []Attr{{"pawl.run.id", b.RunID}, {"pawl.seq", int64(b.Seq)}}}
	f.visit = f.open(visitSpan(f.run, r.Seq), f.root.ID, "visit", r.At)
	if from := b.State; from != nil {
		if source, ok := ContextOf(from); ok {
			link.Trace, link.Span = source.Trace, visitSpan(b.RunID, from.VisitSeq)
		}
		f.visit.Name = "visit " + from.Current
		f.visit.text("pawl.state", from.Current)
		if from.Turn != nil {
			f.beginTurn(r.At, r.Seq, 1, from.Current)
		}
	}
	f.root.Links = append(f.root.Links, link)
}

func (f *Fold) beginTurn(at int64, seq uint64, attempt int, state string) {
	parent := f.root.ID
	if f.visit != nil {
		parent = f.visit.ID
	}
	f.turn = f.open(turnSpan(f.run, seq, attempt), parent, "chat "+state, at)
	f.turn.text("gen_ai.operation.name", "chat")
	f.turn.text("pawl.state", state)
	f.turn.number("pawl.turn.seq", int64(seq))
	f.turn.number("pawl.attempt", int64(attempt))
}

func (f *Fold) assigned(b *machine.TurnAssigned) {
	if f.turn != nil {
		f.turn.text("pawl.worker.id", b.Assigned.Worker)
		f.turn.number("pawl.delivery", int64(b.Assigned.Delivery))
	}
}

func (f *Fold) completed(at int64, b *machine.TurnCompleted) {
	f.usage(&b.Usage)
	if f.turn != nil {
		f.turn.text("pawl.event", b.Event)
	}
	f.endTurn(at, "completed", "")
}

// failed ends the span of a failed attempt of a turn, and begins the span of the next attempt if there is one.
func (f *Fold) failed(at int64, b *machine.TurnFailed) {
	f.usage(&b.Usage)
	state := ""
	if f.turn != nil {
		state = stateOf(f.turn)
	}
	code := b.Error.Code
	if code == "" {
		code = "_OTHER"
	}
	f.endTurn(at, "failed", code)
	if b.Next > 0 {
		f.beginTurn(max(at, b.NotBefore), b.TurnSeq, b.Next, state)
	}
}

func stateOf(s *Span) string {
	for _, a := range s.Attrs {
		if a.Key == "pawl.state" {
			text, _ := a.Value.(string)
			return text
		}
	}
	return ""
}

// usage adds the token usage of an execution as attributes. Their names follow the OpenTelemetry
// conventions for GenAI.
func (f *Fold) usage(u *machine.Usage) {
	if f.turn == nil || *u == (machine.Usage{}) {
		return
	}
	f.turn.addUsage(u)
	f.turn.text("gen_ai.response.model", u.Model)
}

func (f *Fold) endTurn(at int64, outcome, code string) {
	if f.turn == nil {
		return
	}
	f.turn.text("pawl.outcome", outcome)
	if code != "" {
		f.turn.fail(code)
	}
	f.end(f.turn, at)
	f.turn = nil
}

func (f *Fold) finish(at int64, b *machine.Ended) {
	f.endVisit(at, "")
	f.root.text("pawl.status", b.Status.String())
	f.root.text("pawl.reason", b.Reason)
	if b.Status == machine.Failed || b.Status == machine.Escalated || b.Status == machine.BudgetExhausted {
		f.root.fail(b.Reason)
	}
	f.end(f.root, at)
	f.root = nil
}
