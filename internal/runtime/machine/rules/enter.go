package rules

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// These constants are the reasons that are recorded when a turn or step is closed without an answer of its own.
const (
	whyOutsideEvent = "outside_event"
	whyStateTimeout = "state_timeout"
	whyVisitLeft    = "visit_left"
	whyRunEnded     = "run_ended"
	whyCompensation = "compensation"
	whyAnswered     = "answered"
)

// emit applies an event from the executor of the open turn or from outside. If the turn violates a validator, the attempt
// of the turn fails instead.
func (t *txn) emit(c *machine.EmitEvent) error {
	if err := t.checkEmit(c); err != nil {
		return err
	}
	if err := t.checkWrites(c.Artifacts); err != nil {
		return err
	}
	if c.Outside {
		t.abandonTurn(whyOutsideEvent)
		t.resetProgress()
	} else {
		t.assign(c.Assigned)
	}
	if c.Violation != nil {
		t.failLastAnswer(c.Violation, machine.Usage{})
		return nil
	}
	t.move(entry{event: c.Event, cause: machine.CauseEvent, byAgent: !c.Outside, artifacts: c.Artifacts})
	return nil
}

func (t *txn) checkEmit(c *machine.EmitEvent) error {
	if err := First(t.checkOpen(), t.checkUnpaused()); err != nil {
		return err
	}
	if !c.Outside && t.s.Turn == nil {
		return t.checkTurn(t.s.VisitSeq, 1) // always an error, because no turn is open
	}
	return t.checkEvent(c.Event)
}

// move follows the declared event e.event to its target. If the run is over a budget, the run ends instead. If the pack
// requires it for this event (compensate_on), the effects of the run are undone first.
func (t *txn) move(e entry) {
	if t.endIfOverBudget(e.event, e.artifacts) {
		return
	}
	e.from = t.node()
	e.target = e.from.OnEvent[e.event]
	if t.g.CompensateOn[e.event] && t.startCompensation(ending{event: e.event, intended: e.target, artifacts: e.artifacts}, e) {
		return
	}
	e.noProgress = t.madeNoProgress(e)
	t.enter(e)
}

// abandonTurn closes the open turn without a result. If no turn is open, it does nothing.
func (t *txn) abandonTurn(why string) {
	turn := t.s.Turn
	if turn == nil {
		return
	}
	t.record(&machine.TurnAbandoned{TurnSeq: turn.Seq, Attempt: turn.Attempt, Why: why})
	t.s.Turn = nil
}

// entry describes one attempt to enter a state, caused by the start of the run, by an event, by a timeout or by a budget.
type entry struct {
	// from is the state that the run leaves. It is nil at the start of the run.
	from   *machine.Node
	event  string
	target string
	cause  machine.Cause
	// byAgent means that the executor of the turn caused the transition, and not the start, an outside event, a timer
	// or a budget.
	byAgent bool
	// artifacts are the checked writes of the input. They are stored in the resulting Transition or Ended record.
	artifacts []machine.ArtifactWrite
	// noProgress means that the run repeats a loop without progress. The target is then refused.
	noProgress bool
}

// enter makes the run enter a state: at its start, by an event, or instead of a refused state (semantics §3). It makes
// one Transition, or it ends the run if no state can be entered or the visits are used up.
func (t *txn) enter(e entry) {
	t.cancelSteps(whyVisitLeft)
	if reason := t.visitsUsedUp(); reason != "" {
		t.end(ending{status: machine.BudgetExhausted, reason: reason, event: e.event, intended: e.target, artifacts: e.artifacts})
		return
	}
	to, redirects := t.route(e)
	if to == nil {
		status := machine.BudgetExhausted
		if redirects[0].Guard == noProgress {
			status = machine.Escalated
		}
		t.end(ending{
			status: status, reason: redirects[0].Guard,
			redirects: redirects, event: e.event, intended: e.target, artifacts: e.artifacts,
		})
		return
	}
	t.visit(e, to, redirects)
}

// visitsUsedUp checks the bounds of the total number of visits (checks 1 and 2 of semantics §3). It returns the reason
// with which the run ends, or "" if the run may go on.
func (t *txn) visitsUsedUp() string {
	if limit := t.g.Budget.MaxTotalVisits; limit > 0 && t.s.TotalVisits >= limit {
		return "max_total_visits"
	}
	if t.s.Transitions >= t.s.Limits.MaxTransitions {
		return "max_transitions"
	}
	return ""
}

// route returns the state that the run enters: the target of the event or, if the target is refused, another state
// (check 3 of semantics §3). It follows on_max_visits from each refused state to the next one. It returns nil if no
// state can be entered.
//
// If the run has followed the event from this state too often, the target is refused, and route continues with
// on_max_visits of the state that the run leaves. If a loop makes no progress, the target is refused like a state with
// too many visits. No state is tried twice, so route ends even if the on_max_visits of a pack form a cycle.
func (t *txn) route(e entry) (*machine.Node, []machine.Redirect) {
	var redirects []machine.Redirect
	next := e.target
	if guard := t.edgeUsedUp(e); guard != "" {
		redirects = append(redirects, machine.Redirect{State: next, Guard: guard})
		next = e.from.OnMaxVisits
	} else if e.noProgress {
		redirects = append(redirects, machine.Redirect{State: next, Guard: noProgress})
		next = t.g.States[next].OnMaxVisits
	}
	for next != "" && !isRefused(redirects, next) {
		n := t.g.States[next]
		if n.MaxVisits == 0 || VisitsOf(t.s, next) < n.MaxVisits {
			return n, redirects
		}
		redirects = append(redirects, machine.Redirect{State: next, Guard: "max_visits:" + next})
		next = n.OnMaxVisits
	}
	return nil, redirects
}

// edgeUsedUp returns the name of the guard max_iterations if the run has followed the event from this state as often as
// the pack allows. Otherwise it returns "".
func (t *txn) edgeUsedUp(e entry) string {
	if e.from == nil {
		return ""
	}
	limit, bounded := e.from.MaxIterations[e.event]
	if !bounded || FollowedTimes(t.s, e.from.Name, e.event) < limit {
		return ""
	}
	return "max_iterations:" + e.from.Name + "." + e.event
}

func isRefused(redirects []machine.Redirect, state string) bool {
	for i := range redirects {
		if redirects[i].State == state {
			return true
		}
	}
	return false
}

// visit makes the Transition and everything that belongs to a new visit: its first turn or the wait for an input, the
// timeout, the conversation and the queued inputs. The event counts as followed only if the run enters the target of
// the event, and not another state.
func (t *txn) visit(e entry, to *machine.Node, redirects []machine.Redirect) {
	tr := &machine.Transition{
		Event: e.event, To: to.Name, Intended: e.target,
		Redirects: redirects, Cause: e.cause, Artifacts: e.artifacts, Uncompensated: t.uncompensated,
		AwaitsInput: t.waitsAfter(e, to), Conversation: e.cause == machine.CauseEntry && t.s.Conversation,
	}
	if len(redirects) > 0 {
		tr.Cause = machine.CauseMaxVisits
	}
	if e.from != nil {
		tr.From = e.from.Name
		if len(redirects) == 0 && e.cause != machine.CauseBudget {
			t.countTransition(e.from.Name, e.event)
		}
	}
	s := t.s
	s.Transitions++
	s.TotalVisits++
	tr.Visit, tr.Total = t.bump(to.Name), s.TotalVisits
	seq := t.record(tr)
	t.write(e.artifacts, seq)
	if e.noProgress {
		t.resetProgress()
	}
	s.Current, s.VisitSeq, s.Steps = to.Name, seq, nil
	t.copied.steps = true
	if tr.AwaitsInput {
		t.s.Turn = nil
	} else {
		t.openTurn(seq)
	}
	t.armTimeout(to)
	if !to.Persistent {
		t.resetConversation(to.Name)
	}
	t.queueSteering()
	t.drainQueue()
}

// waitsAfter reports whether the run waits for an input after it has entered the state `to` (RFC 0014, ADR 0105). This
// happens only after a transition by the executor of a turn. If an input or a steering message is already waiting,
// the state's turn begins with it. A terminal state completes in any case, and an external state waits in any case.
func (t *txn) waitsAfter(e entry, to *machine.Node) bool {
	if !t.rules.controlDecides || !e.byAgent || to.Terminal || to.Orchestration == machine.External || len(t.s.Queue) > 0 || t.pendingSteering() > 0 {
		return false
	}
	return to.Control == machine.ControlUser || to.Control == machine.ControlUndeclared && t.s.Conversation
}

// armTimeout sets the timeout of the state that was just entered. A terminal state has no timeout, because it accepts
// no events.
func (t *txn) armTimeout(n *machine.Node) {
	t.s.StateTimeoutAt = 0
	if n.Timeout != nil && !n.Terminal {
		t.s.StateTimeoutAt = AddCapped(t.input.At, int64(n.Timeout.After))
	}
}

// Loops without progress (x_pawl.no_progress, semantics §6). A visit makes no progress if it ends in the same way as an
// earlier visit, and progress if it ends in a new way. Every input from outside also counts as progress.

// noProgress is the name of the guard that refuses a target because of a loop without progress, and the reason of a run
// that ends because of it.
const noProgress = "no_progress"

// madeNoProgress counts how the visit ends, and reports whether the target must be refused because the run repeats a
// loop. If this state has no fallback (on_max_visits) but another state of the loop has one, the target is entered once
// more. So the run reaches the state with the fallback and is refused there.
func (t *txn) madeNoProgress(e entry) bool {
	rule := t.g.NoProgress
	if rule == nil {
		return false
	}
	n := t.recordVisitEnd(e)
	if n < rule.Window {
		return false
	}
	return n > rule.Window || t.g.States[e.target].OnMaxVisits != "" || !t.hasFallbackState()
}

// recordVisitEnd records how the visit ends. It returns how many visits have ended in this way, including this one.
func (t *txn) recordVisitEnd(e entry) int {
	end := t.endOfVisit(e)
	list := slices.Clone(t.s.Repeats)
	i := slices.IndexFunc(list, func(r machine.Repeat) bool { return r.Hash == end })
	if i < 0 {
		for j := range list {
			list[j].N = 0
		}
		list = append(list, machine.Repeat{State: e.from.Name, Hash: end})
		list = list[max(0, len(list)-machine.MaxRepeats):]
		i = len(list) - 1
	}
	list[i].N++
	t.s.Repeats = list
	return list[i].N
}

// hasFallbackState reports whether a state of the repeated loop has an on_max_visits.
func (t *txn) hasFallbackState() bool {
	return slices.ContainsFunc(t.s.Repeats, func(r machine.Repeat) bool {
		return r.N > 0 && t.g.States[r.State].OnMaxVisits != ""
	})
}

// resetProgress forgets how earlier visits ended, so that they do not count as a loop together with later visits.
func (t *txn) resetProgress() { t.s.Repeats = nil }

// endOfVisit returns a hash of how a visit ends. The hashes of two visits are equal if they ended in the same way.
func (t *txn) endOfVisit(e entry) (out [32]byte) {
	sum := sha256.New()
	addText(sum, e.from.Name)
	addText(sum, e.event)
	if t.g.NoProgress.Artifacts {
		t.addArtifacts(sum, e.artifacts)
	}
	if t.g.NoProgress.ToolCalls {
		t.addCalls(sum)
	}
	sum.Sum(out[:0])
	return out
}

// addText adds a text to the hash, preceded by its length, so that different sequences of texts never give the same
// bytes.
func addText(sum hash.Hash, text string) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(text)))
	sum.Write(size[:])
	sum.Write([]byte(text))
}

// addArtifacts adds the run's artifacts to the hash, with the values that they have after the given writes.
func (t *txn) addArtifacts(sum hash.Hash, writes []machine.ArtifactWrite) {
	heads := slices.Clone(t.s.Artifacts)
	for i := range writes {
		w := &writes[i]
		at := slices.IndexFunc(heads, func(h machine.ArtifactHead) bool { return h.Name == w.Name })
		if at < 0 {
			at = len(heads)
			heads = append(heads, machine.ArtifactHead{Name: w.Name, Mode: t.g.Artifacts[w.Name].Mode})
		}
		updateHead(&heads[at], 0, w.Value)
	}
	slices.SortFunc(heads, func(a, b machine.ArtifactHead) int { return strings.Compare(a.Name, b.Name) })
	for i := range heads {
		addText(sum, heads[i].Name)
		sum.Write(heads[i].Hash[:])
	}
}

// addCalls adds the calls of tools and agents in the visit to the hash, independent of their order. Steps that the
// sidecar itself requested are left out, because their payloads contain step numbers and so always differ.
func (t *txn) addCalls(sum hash.Hash) {
	var calls []string
	for i := range t.s.Steps {
		if p := &t.s.Steps[i]; p.Model == nil && p.About == nil {
			calls = append(calls, p.Tool+"\x00"+string(p.PayloadHash[:]))
		}
	}
	slices.Sort(calls)
	for _, call := range calls {
		addText(sum, call)
	}
}

// begin starts a run: it implements Step for the command [machine.Start]. The run enters its entry state as described
// in semantics §3.
func begin(g *machine.Graph, s *machine.State, in machine.Input, c machine.Start) (machine.Result, error) {
	if s != nil {
		return machine.Result{State: s}, RunExists(s)
	}
	if err := CheckStart(g, &c); err != nil {
		return machine.Result{}, err
	}
	// The time must not be 0, because a timer or deadline of 0 in the state means that there is none.
	in.At = max(in.At, 1)
	t, err := newTxn(g, newState(g, &c, in.At), in)
	if err != nil {
		return machine.Result{}, err
	}
	t.old = nil
	size := PartsBytes(c.Input) + EnvelopeBytes(c.Envelope)
	if err := t.checkMessageBytes(size); err != nil {
		return machine.Result{}, err
	}
	t.enter(entry{target: g.Entry, cause: machine.CauseEntry})
	if len(c.Input) > 0 && !t.s.Status.Terminal() {
		seq := t.record(&machine.InputReceived{Parts: c.Input, Envelope: c.Envelope})
		t.s.MessageBytes += size
		t.addMessage(seq)
	}
	return t.result(machine.Accepted), nil
}

// newState returns the state of a new run before its first record.
func newState(g *machine.Graph, c *machine.Start, at int64) *machine.State {
	labels := slices.Clone(c.Labels)
	slices.SortFunc(labels, func(a, b machine.Label) int { return strings.Compare(a.Key, b.Key) })
	s := &machine.State{
		Namespace: c.Namespace, RunID: c.RunID,
		Digest: g.Digest, PackID: g.PackID, PackVersion: g.PackVersion,
		Entry: g.Entry, Agent: g.Agent, EntryOverride: c.EntryOverride,
		Execution: c.Execution, Conversation: c.Conversation, Labels: labels, Limits: WithDefaults(c.Limits),
		Parent: c.Parent, Depth: c.Depth, Task: c.Task,
		CreatedAt: at, At: at,
		MaxSteps: smallerBound(g.Budget.MaxSteps, c.MaxSteps),
		Erasable: g.Erasable, Policy: c.Policy, Payer: c.Payer,
	}
	if c.Lease != (machine.Amount{}) {
		s.Account = &machine.Account{Leased: true, Limit: machine.Amount{
			Tokens: smallerBound(g.Budget.MaxTokens, c.Lease.Tokens), CostMicro: smallerBound(g.Budget.MaxCostMicroUSD, c.Lease.CostMicro),
			ToolCalls: c.Lease.ToolCalls,
		}}
	}
	if wall := smallerBound(g.Budget.MaxWallTime, c.MaxWallTime); wall > 0 {
		s.Deadline = AddCapped(at, int64(wall))
	}
	return s
}

// smallerBound returns the smaller one of two bounds. A bound of 0 means that there is no bound.
func smallerBound[N int | int64 | time.Duration](a, b N) N {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// ending describes how a run ends: its status, its reason and what the Ended record contains.
type ending struct {
	status    machine.Status
	reason    string
	redirects []machine.Redirect
	// event is the requested event that the run does not follow, because it ends. intended is the target of the event.
	// Both are "" if there is none.
	event, intended string
	// artifacts are the checked writes of the input. They are stored in the Ended record.
	artifacts []machine.ArtifactWrite
}

// end ends the run. If the tool calls of the run have effects to undo, they are undone first, except for a run that
// completes. If effects are already being undone, the run ends after that.
func (t *txn) end(e ending) {
	switch {
	case t.s.Undo != nil:
		t.divertEnd(e)
	case e.status == machine.Completed || !t.startCompensation(e, entry{}):
		t.finish(e)
	}
}

// finish ends the run. It clears the turn, the queue, the timers and everything else that could still change the run.
func (t *txn) finish(e ending) {
	t.cancelSteps(whyRunEnded)
	t.closeAccount()
	t.evaluate()
	ended := &machine.Ended{Status: e.status, Reason: e.reason, Redirects: e.redirects, Artifacts: e.artifacts, Uncompensated: t.uncompensated}
	if t.rules.endNamesEvent {
		ended.Event, ended.Intended = e.event, e.intended
	}
	seq := t.record(ended)
	t.write(e.artifacts, seq)
	s := t.s
	s.Status, s.Reason = e.status, e.reason
	s.Turn, s.Queue, s.RequiredMessages, s.Paused = nil, nil, nil, false
	s.Deadline, s.WallLeft, s.StateTimeoutAt, s.Effects = 0, 0, 0, nil
}

// endIfOverBudget ends a run that is over a budget. It returns false if the run is within its budgets. event is the
// event that the run does not follow if it ends. It is "" if there is none.
func (t *txn) endIfOverBudget(event string, artifacts []machine.ArtifactWrite) bool {
	reason := t.overBudget()
	if reason == "" {
		return false
	}
	e := ending{status: machine.BudgetExhausted, reason: reason, artifacts: artifacts, event: event}
	if event != "" {
		e.intended = t.node().OnEvent[event]
	}
	t.end(e)
	return true
}

// pause stops the sending of work for the run. If the run is already paused, it has no effect.
func (t *txn) pause(c *machine.Pause) error {
	if err := t.checkOpen(); err != nil || t.s.Paused {
		return err
	}
	t.record(&machine.Paused{Note: c.Note})
	t.s.Paused = true
	return nil
}

// resume ends the pause of the run. If the timeout of the state passed during the pause, its timer becomes due at once.
func (t *txn) resume(c *machine.Resume) error {
	if err := t.checkOpen(); err != nil || !t.s.Paused {
		return err
	}
	t.record(&machine.Resumed{Note: c.Note})
	t.s.Paused = false
	return nil
}

// cancel ends the run as CANCELLED. If the run is already undoing its effects in order to end, it keeps the status of that
// end. The note of the caller is kept in the journal, with the input.
func (t *txn) cancel() error {
	if err := t.checkOpen(); err != nil {
		return err
	}
	t.end(ending{status: machine.Cancelled, reason: "cancelled"})
	return nil
}
