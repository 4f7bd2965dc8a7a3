package invariant

import (
	"fmt"
	"math"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// Check checks whether Step could have made the state s with the graph g. The error contains all faults
// at once. Check is for tests.
func Check(s *machine.State, g *machine.Graph) error {
	c := &checker{s: s, g: g}
	if g.States[s.Current] == nil {
		return fmt.Errorf("run %s: current state %q is not in the graph", s.RunID, s.Current)
	}
	c.counters()
	c.bounds()
	c.account()
	c.life()
	c.turn()
	c.steps()
	c.models()
	c.requiredMessages()
	c.effects()
	c.artifacts()
	c.conversations()
	c.clocks()
	return c.found()
}

type checker struct {
	s      *machine.State
	g      *machine.Graph
	faults []error
}

// require adds a fault to the list if ok is false.
func (c *checker) require(ok bool, format string, args ...any) {
	if !ok {
		c.faults = append(c.faults, fmt.Errorf(format, args...))
	}
}

// counters checks that the counts of visits, edges, transitions and steps agree with one another.
func (c *checker) counters() {
	s, sum := c.s, 0
	for i, v := range s.Visits {
		sum += v.N
		c.require(v.N > 0 && c.g.States[v.State] != nil, "visits[%d]: %+v", i, v)
	}
	edges := 0
	for i, e := range s.Edges {
		edges += e.N
		from := c.g.States[e.State]
		c.require(e.N > 0 && from != nil && from.OnEvent[e.Event] != "", "edges[%d]: %+v", i, e)
	}
	taken := rules.TakenBy(s)
	c.require(sum == s.TotalVisits+taken.Visits, "visits add up to %d, total_visits is %d and %d were taken over", sum, s.TotalVisits, taken.Visits)
	c.require(s.Transitions == s.TotalVisits, "%d transitions, %d visits", s.Transitions, s.TotalVisits)
	c.require(edges < sum, "%d edges followed in %d visits", edges, sum)
	c.require(rules.VisitsOf(s, s.Current) > 0, "current state %q was never visited", s.Current)
	c.require(s.VisitSeq > 0 && s.VisitSeq <= s.Seq, "visit_seq %d of %d", s.VisitSeq, s.Seq)
	c.require(s.LastStep >= taken.Steps && int64(s.ToolCalls) >= rules.ToolSteps(s), "%d tool calls, %d steps, %d taken over", s.ToolCalls, s.LastStep, taken.Steps)
	c.require(s.CreatedAt <= s.At, "created at %d, after %d", s.CreatedAt, s.At)
}

// bounds checks that the run exceeds none of the bounds of its pack.
func (c *checker) bounds() {
	s, b := c.s, &c.g.Budget
	for _, v := range s.Visits {
		n := c.g.States[v.State]
		c.require(n == nil || n.MaxVisits == 0 || v.N <= n.MaxVisits, "%d visits of %q", v.N, v.State)
	}
	for _, e := range s.Edges {
		if n := c.g.States[e.State]; n != nil {
			limit, bounded := n.MaxIterations[e.Event]
			c.require(!bounded || e.N <= limit, "edge %s.%s followed %d times", e.State, e.Event, e.N)
		}
	}
	c.require(b.MaxTotalVisits == 0 || s.TotalVisits <= b.MaxTotalVisits, "%d visits in total", s.TotalVisits)
	c.require(s.Transitions <= s.Limits.MaxTransitions, "%d transitions", s.Transitions)
	c.require(s.MaxSteps == 0 || rules.ToolSteps(s) <= int64(s.MaxSteps), "%d steps", s.LastStep)
	c.require(b.MaxReframes == 0 || s.Reframes <= b.MaxReframes, "%d reframes", s.Reframes)
	if s.Status.Terminal() || s.Undo != nil {
		return
	}
	for _, called := range s.Called {
		c.require(called.N <= c.g.Tools[called.State].MaxCalls, "%d calls of %s", called.N, called.State)
	}
	calls := rules.CallsOf(c.g, s)
	c.require(calls == 0 || int64(s.ToolCalls) <= calls, "%d tool calls", s.ToolCalls)
	c.ledger()
}

// life checks that the status, the reason and the awaited input of the run agree with the rest of the
// state.
func (c *checker) life() {
	s := c.s
	c.require(s.Status == rules.StatusOf(c.g, s), "status %s, should be %s", s.Status, rules.StatusOf(c.g, s))
	c.require(s.Awaiting == rules.AwaitingOf(c.g, s), "awaiting %d, should be %d", s.Awaiting, rules.AwaitingOf(c.g, s))
	c.require(s.TurnAwaiting == 0 || s.TurnAwaiting == machine.AwaitAuth && s.Turn == nil && rules.WaitsForOther(s), "the last turn asked for %d", s.TurnAwaiting)
	c.require(s.StatusAt >= s.CreatedAt && s.StatusAt <= s.At, "status since %d, run from %d to %d", s.StatusAt, s.CreatedAt, s.At)
	c.require(s.Status.Terminal() == (s.Reason != ""), "status %s with reason %q", s.Status, s.Reason)
	if !s.Status.Terminal() {
		return
	}
	c.require(s.Turn == nil && len(s.Queue) == 0 && !s.Paused, "an ended run has a turn, a queue or is paused")
	c.require(len(rules.Timers(s)) == 0, "an ended run has timers")
	c.require(len(rules.PendingSteps(s)) == 0, "an ended run has pending steps")
	c.require(len(s.RequiredMessages) == 0, "an ended run has something to hear")
}

// turn checks the open turn and the queued inputs.
func (c *checker) turn() {
	s, t := c.s, c.s.Turn
	c.require(len(s.Queue) <= s.Limits.MaxQueuedInputs, "%d inputs queued", len(s.Queue))
	if t == nil {
		c.require(len(s.Queue) == 0 || s.Undo != nil, "inputs queued without an open turn")
		return
	}
	c.require(t.Seq >= s.VisitSeq && t.Seq <= s.Seq, "turn %d outside of visit %d..%d", t.Seq, s.VisitSeq, s.Seq)
	c.require(t.Attempt >= 1 && t.Attempt <= rules.AttemptsOf(c.g), "attempt %d", t.Attempt)
	c.require(!t.Suspended || len(rules.AwaitedSteps(s)) > 0, "suspended without a pending step")
	c.require(!t.Suspended || t.NotBefore == 0, "suspended and in backoff")
	last := uint64(0)
	for _, seq := range s.Queue {
		c.require(seq > last && seq <= s.Seq, "queue %v", s.Queue)
		last = seq
	}
}

// steps checks the steps of the visit: their numbers, keys, attempts and deadlines, and the number of pending
// steps.
func (c *checker) steps() {
	s := c.s
	keys := map[string]bool{}
	last := uint32(0)
	for i := range s.Steps {
		p := &s.Steps[i]
		c.require(p.Step > last && p.Step <= s.LastStep, "step %d after %d of %d", p.Step, last, s.LastStep)
		c.require(!keys[p.Key], "two steps with key %q", p.Key)
		c.require(p.Attempt >= 1 && (p.Model != nil || p.Attempt <= rules.ToolOf(c.g, p.Tool).Attempts), "step %d attempt %d", p.Step, p.Attempt)
		pending := p.Status == machine.StepStatusPending
		c.require(p.AwaitingAnswer() == (p.Deadline != 0) && (pending || p.Inquiry == 0), "step %d status %d with deadline %d", p.Step, p.Status, p.Deadline)
		answered := p.Status == machine.StepStatusOK || p.Status == machine.StepStatusError
		c.require(answered == (p.AnswerSeq != 0), "step %d status %d with answer %d", p.Step, p.Status, p.AnswerSeq)
		begun := s.VisitSeq + 1
		if p.Step <= rules.TakenBy(s).Steps {
			begun = s.VisitSeq
		}
		c.require(p.RequestSeq >= begun && p.TurnSeq >= s.VisitSeq, "step %d is not of this visit", p.Step)
		c.approval(p)
		last, keys[p.Key] = p.Step, true
	}
	most := rules.OrDefault(c.g.MaxPendingSteps, machine.DefaultMaxPendingSteps)
	c.require(rules.OfTurns(s) <= most, "%d steps pending", rules.OfTurns(s))
}

// approval checks that a call that waited for approval has a digest, and that its decision has a record
// and a time.
func (c *checker) approval(p *machine.ToolStep) {
	a := p.Approval
	if a == nil {
		return
	}
	c.require(p.Model == nil && a.Digest != [32]byte{} && a.Since > 0 && a.Since <= c.s.At, "step %d: approval %+v", p.Step, *a)
	c.require((a.Verdict != 0) == (a.Seq != 0) && a.Seq <= c.s.Seq && a.At <= c.s.At && a.PayloadSeq <= a.Seq, "step %d: decision %+v", p.Step, *a)
	c.require(p.Status == machine.StepStatusCancelled || a.Held == (a.Verdict == 0 || a.Verdict == machine.Expired), "step %d: held after %s", p.Step, a.Verdict)
	c.require(!a.Held || p.Status != machine.StepStatusOK || a.Verdict == machine.Expired && p.Attempt > 1, "step %d is held and answered", p.Step)
	c.require(!p.HeldForApproval() || p.Remote == nil, "step %d is held and sent", p.Step)
}

// artifacts checks that the artifacts are declared, that each has one entry, and that their sizes add up.
func (c *checker) artifacts() {
	s, sum := c.s, int64(0)
	names := map[string]bool{}
	for i := range s.Artifacts {
		h := &s.Artifacts[i]
		decl, ok := c.g.Artifacts[h.Name]
		c.require(ok && decl.Type == h.Type && decl.Mode == h.Mode, "artifact %q is not as declared", h.Name)
		c.require(h.Writes > 0 && h.Seq > 0 && h.Seq <= s.Seq && !names[h.Name], "artifact %q: %+v", h.Name, *h)
		sum += h.Bytes
		names[h.Name] = true
	}
	c.require(sum == s.ArtifactBytes, "artifacts hold %d bytes, counted %d", sum, s.ArtifactBytes)
	c.require(sum <= s.Limits.MaxRunArtifactBytes, "artifacts hold %d bytes", sum)
	c.require(c.g.MaxRunArtifactBytes == 0 || sum <= c.g.MaxRunArtifactBytes, "artifacts hold %d bytes, the pack allows %d", sum, c.g.MaxRunArtifactBytes)
}

func (c *checker) conversations() {
	names := map[string]bool{}
	for _, v := range c.s.Conversations {
		c.require(v.From <= v.Next && v.Next > 0 && !names[v.State], "conversation %+v", v)
		n := c.g.States[v.State]
		c.require(n != nil && (!n.Persistent || v.From == 0), "conversation %+v", v)
		names[v.State] = true
	}
	c.require(c.s.MessageBytes >= 0 && c.s.MessageBytes <= c.s.Limits.MaxMessageBytes, "messages hold %d bytes", c.s.MessageBytes)
}

// clocks checks that the wall-time clock of an active run either runs or is stopped, and that the
// timeout of the state is set if the pack has one.
func (c *checker) clocks() {
	s := c.s
	if s.Status.Terminal() {
		return
	}
	c.require(s.Deadline == 0 || s.WallLeft == 0, "the wall clock both runs and stands")
	c.require(s.Deadline == 0 || s.At < s.Deadline || s.Deadline == math.MaxInt64, "deadline %d passed at %d", s.Deadline, s.At)
	c.require(c.g.Budget.MaxWallTime == 0 || s.Undo != nil || s.Deadline+s.WallLeft != 0, "the wall clock is lost")
	stands := c.g.WallExcludesWaiting && s.Status == machine.Waiting
	c.require(s.WallLeft == 0 || stands, "the wall clock stands in status %s", s.Status)
	c.require(s.Deadline == 0 || !stands, "the wall clock runs in status %s", s.Status)
	n := c.g.States[s.Current]
	c.require((n.Timeout != nil && !n.Terminal && s.Undo == nil) == (s.StateTimeoutAt != 0), "state timeout at %d", s.StateTimeoutAt)
}

// effects checks three rules. Every effect to undo has a compensating tool. Only one effect is undone
// at a time. As long as a step waits for another step that asks about it, that other step is pending.
func (c *checker) effects() {
	s := c.s
	c.require(len(s.Effects) <= machine.MaxEffects, "%d effects", len(s.Effects))
	for _, e := range s.Effects {
		c.require(c.g.Tools[e.Tool].Compensate != "" && e.Step <= s.LastStep && e.PayloadSeq <= s.Seq, "effect %+v", e)
	}
	c.require(!s.Status.Terminal() || s.Undo == nil && s.Effects == nil, "an ended run has effects to undo")
	c.require(s.Undo == nil || s.Turn == nil && len(rules.PendingSteps(s)) > 0, "effects are undone, and nothing is waited for")
	for i := range s.Steps {
		p := &s.Steps[i]
		if p.Inquiry != 0 {
			j := rules.FindStep(s.Steps, p.Inquiry)
			c.require(j >= 0 && s.Steps[j].Status == machine.StepStatusPending && s.Steps[j].About.Step == p.Step, "step %d waits for step %d", p.Step, p.Inquiry)
		}
		if p.About != nil && p.About.Role == machine.RoleCompensate && p.Status == machine.StepStatusPending {
			c.require(s.Undo != nil && s.Undo.By == p.Step, "step %d compensates an effect that is not being compensated", p.Step)
		}
	}
}
