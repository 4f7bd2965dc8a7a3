package waiting

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/ratelimit"
)

// Work is the part of the dispatcher that a [Service] uses.
type Work interface {
	Holding(key runtime.RunKey) dispatch.Holding
	Unfit(ns uint32, class *machine.WorkClass) ([]dispatch.Unfit, int)
	TurnClass(s *machine.State, g *machine.Graph) machine.WorkClass
	StepClass(s *machine.State, tool string) machine.WorkClass
}

// Limits is the part of the rate limiter that a [Service] uses.
type Limits interface {
	// WaitingCalls lists the calls of a run that wait for a rate limit, the one that has waited longest first.
	WaitingCalls(key runtime.RunKey) []ratelimit.Wait
}

// History is the part of the history reader that a [Service] uses.
type History interface {
	Record(ctx context.Context, key runtime.RunKey, seq uint64) (machine.Record, error)
}

// Config configures a [Service]. All fields are required.
type Config struct {
	Work   Work
	Limits Limits
	Past   History
	Clock  runtime.Clock
}

// Service says what runs wait for. It has no state of its own. Safe for concurrent use.
type Service struct{ cfg Config }

// New returns a Service and starts no goroutine.
func New(cfg Config) *Service { return &Service{cfg: cfg} }

// scene is the data from which one answer is computed.
type scene struct {
	*Service
	ctx     context.Context //nolint:containedctx // a scene lives as long as one call
	key     runtime.RunKey
	s       *machine.State
	g       *machine.Graph
	holding dispatch.Holding
	now     int64
	// kindOnly means that only the kind is needed. Records and the list of connected workers are then not read.
	kindOnly bool
}

// Kind returns the kind of what a run waits for now. It reads no record. The arguments are those of [Service.ReasonFor].
func (r *Service) Kind(s *machine.State, g *machine.Graph) Kind {
	return r.reasonFor(&scene{ctx: context.Background(), s: s, g: g, kindOnly: true}).Kind
}

// ReasonFor returns what a run waits for now. s is the newest state of the run, and g the graph of its pack. The kind
// is [Nothing] if the run has ended, was imported or continues by itself. For most runs it reads at most one record. A
// time whose record cannot be read is 0.
func (r *Service) ReasonFor(ctx context.Context, s *machine.State, g *machine.Graph) *Reason {
	return r.reasonFor(&scene{ctx: ctx, s: s, g: g})
}

// reasonFor returns what the run of the scene waits for. If there are several things, it returns the one that has
// to happen first, in the order of the checks below.
func (r *Service) reasonFor(c *scene) *Reason {
	s := c.s
	if s.Status.Terminal() || s.Imported {
		return &Reason{}
	}
	c.Service, c.key, c.now = r, runtime.RunKey{Namespace: s.Namespace, ID: s.RunID}, r.cfg.Clock.Now().UnixNano()
	if s.Paused {
		return c.pausedReason()
	}
	if asking := rules.AskingDelegation(s.Steps); asking != nil {
		out := stepReason(Input, asking)
		out.Since, out.Due, out.Auth, out.TaskID = s.StatusAt, 0, asking.Remote.Asking == machine.AwaitAuth, asking.Remote.TaskID
		return out
	}
	if p := rules.FirstHeld(s.Steps); p != nil {
		return c.approval(p)
	}
	if s.Undo == nil {
		if out := c.rests(); out != nil {
			return out
		}
	}
	if waits := r.cfg.Limits.WaitingCalls(c.key); len(waits) > 0 {
		w := waits[0]
		return &Reason{Kind: Limit, Since: c.now - int64(w.For), Step: w.Step, Tool: w.Tool, Model: w.Model, Limit: w}
	}
	c.holding = r.cfg.Work.Holding(c.key)
	if out := c.step(); out != nil {
		return out
	}
	if s.Turn == nil || s.Turn.Suspended || s.Undo != nil {
		return &Reason{}
	}
	return c.turn()
}

// timeOf returns the time of a record. It is 0 if the record cannot be read.
func (c *scene) timeOf(seq uint64) int64 {
	if seq == c.s.Seq {
		return c.s.At
	}
	if c.kindOnly {
		return 0
	}
	rec, err := c.cfg.Past.Record(c.ctx, c.key, seq)
	if err != nil {
		return 0
	}
	return rec.At
}

// maxPauseRecords bounds the records that are read to find the record that paused a run. Few records follow it,
// because only the results of earlier work add records to a paused run.
const maxPauseRecords = 16

func (c *scene) pausedReason() *Reason {
	out := &Reason{Kind: Paused}
	for seq, n := c.s.Seq, 0; seq > 0 && n < maxPauseRecords && !c.kindOnly; seq, n = seq-1, n+1 {
		rec, err := c.cfg.Past.Record(c.ctx, c.key, seq)
		if err != nil {
			break
		}
		if _, ok := rec.Body.(*machine.Paused); ok {
			out.By, out.Since = rec.Principal, rec.At
			break
		}
	}
	return out
}

func (c *scene) approval(p *machine.ToolStep) *Reason {
	out := stepReason(Approval, p)
	out.Since = p.Approval.Since
	if a := c.g.Tools[p.Tool].Approval; a != nil {
		out.NotStarter, out.Escalate = a.NotStarter, a.Escalate
	}
	return out
}

// rests returns why no turn of the run can be executed now. It returns nil if a turn can be executed, or if the
// turn waits for its steps.
func (c *scene) rests() *Reason {
	s, node := c.s, c.g.States[c.s.Current]
	switch {
	case s.Turn == nil:
		return &Reason{Kind: Input, Since: s.StatusAt, Due: s.StateTimeoutAt, Auth: s.Awaiting == machine.AwaitAuth}
	case node.Orchestration == machine.External:
		out := &Reason{Kind: Event, Since: s.StatusAt, Due: s.StateTimeoutAt, Events: events(node)}
		if node.Timeout != nil && s.StateTimeoutAt != 0 && len(node.OnEvent) == 1 && out.Events[0] == node.Timeout.Event {
			out.Kind = Timer
		}
		return out
	case s.Turn.NotBefore != 0:
		return &Reason{Kind: Retry, Since: s.StatusAt, Due: s.Turn.NotBefore, Prompt: node.Prompt, Attempt: s.Turn.Attempt}
	}
	return nil
}

func events(node *machine.Node) []string {
	out := make([]string, 0, len(node.OnEvent))
	for event := range node.OnEvent {
		out = append(out, event)
	}
	slices.Sort(out)
	return out
}

// stepPriority orders the things that the steps of a run wait for. The thing with the lowest number is shown.
var stepPriority = map[Kind]int{NoWorker: 1, Retry: 2, Delegation: 3, Caller: 4, Worker: 5, Sidecar: 6}

// step returns what the pending steps of the run wait for. If there are several things, it returns the one that
// most needs the attention of a person. It returns nil if no pending step waits for something.
func (c *scene) step() (best *Reason) {
	for i := range c.s.Steps {
		p := &c.s.Steps[i]
		if !p.Dispatchable() {
			continue
		}
		if out := c.pending(p); out != nil && (best == nil || stepPriority[out.Kind] < stepPriority[best.Kind]) {
			best = out
		}
	}
	if best != nil && best.Kind == NoWorker {
		class := c.cfg.Work.StepClass(c.s, best.Tool)
		c.addUnfit(best, &class)
	}
	return best
}

// addUnfit adds to the answer why the connected workers do not get work of the class.
func (c *scene) addUnfit(out *Reason, class *machine.WorkClass) {
	out.Own = class.Sidecar
	if !c.kindOnly {
		out.Unfit, out.Connected = c.cfg.Work.Unfit(c.key.Namespace, class)
	}
}

// pending returns what a pending step waits for. It returns nil for a call that the turn's executor makes itself
// if no executor has the turn.
func (c *scene) pending(p *machine.ToolStep) *Reason {
	requestedAt := p.Deadline - int64(rules.ToolOf(c.g, p.Tool).Timeout)
	due := requestedAt
	if p.Model != nil {
		due = p.Model.NotBefore
	}
	if due > c.now {
		out := stepReason(Retry, p)
		out.Due = due
		return out
	}
	switch {
	case p.Delegation:
		out := stepReason(Delegation, p)
		out.Since = requestedAt
		if p.Remote != nil {
			out.TaskID = p.Remote.TaskID
		}
		return out
	case p.Model != nil || p.ByCaller:
		out := c.byExecutor(p)
		if out != nil && out.Since == 0 {
			out.Since = c.timeOf(p.RequestSeq)
		}
		return out
	}
	held, ok := c.holding.Steps[p.Step]
	if !ok {
		out := stepReason(NoWorker, p)
		out.Since = requestedAt
		return out
	}
	out := stepReason(holderKind(held), p)
	out.Held, out.Since = held, held.Since
	return out
}

// byExecutor returns the reason for a call that the executor of the turn makes itself. It returns nil if no
// worker has the turn of a run that workers execute.
func (c *scene) byExecutor(p *machine.ToolStep) *Reason {
	if c.holding.Turn == nil {
		if c.s.Execution.Leased() {
			return nil
		}
		return stepReason(Caller, p)
	}
	out := stepReason(holderKind(*c.holding.Turn), p)
	out.Held = *c.holding.Turn
	return out
}

func holderKind(h dispatch.Held) Kind {
	if h.Sidecar {
		return Sidecar
	}
	return Worker
}

// turn returns what the open turn of the run waits for.
func (c *scene) turn() *Reason {
	s := c.s
	out := &Reason{Prompt: c.g.States[s.Current].Prompt, Attempt: s.Turn.Attempt}
	switch {
	case c.holding.Turn != nil:
		out.Kind, out.Held, out.Since, out.Due = holderKind(*c.holding.Turn), *c.holding.Turn, c.holding.Turn.Since, c.holding.Turn.Until
	case !s.Execution.Leased():
		out.Kind, out.Since = Caller, s.At
	default:
		class := c.cfg.Work.TurnClass(s, c.g)
		out.Kind, out.Since = NoWorker, s.At
		if s.Turn.Attempt == 1 {
			out.Since = c.timeOf(s.Turn.Seq)
		}
		c.addUnfit(out, &class)
	}
	return out
}
