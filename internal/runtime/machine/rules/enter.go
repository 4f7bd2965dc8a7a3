package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// entry is one attempt to enter a state. It is caused by the start of the run, by an event or by a
// timeout.
type entry struct {
	// from is the state that the run leaves. It is nil when the run begins.
	from   *machine.Node
	event  string
	target string
	cause  machine.Cause
	// artifacts are the checked artifacts that are stored with the resulting record.
	artifacts []machine.ArtifactWrite
	// noProgress means that the loop repeats without progress. The target is then refused.
	noProgress bool
}

// enter implements the algorithm of semantics §3 for the start of a run, an event and a forced exit. It
// makes one Transition. If no state can be entered, it makes an Ended.
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

// visitsUsedUp makes the checks 1 and 2 of semantics §3. It returns the reason why the run ends, or ""
// if it does not end.
func (t *txn) visitsUsedUp() string {
	if limit := t.g.Budget.MaxTotalVisits; limit > 0 && t.s.TotalVisits >= limit {
		return "max_total_visits"
	}
	if t.s.Transitions >= t.s.Limits.MaxTransitions {
		return "max_transitions"
	}
	return ""
}

// route makes check 3 of semantics §3. It follows on_max_visits from each refused state to the next
// state, and returns the first state that can be entered. It returns nil if there is none.
//
// If the edge is used up, its target is refused, and route continues with the on_max_visits of the
// source. If a loop makes no progress, its target is refused in the same way as a state whose visits
// are used up. No state is tried twice, so route ends even if the forced exits of a pack form a cycle.
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
	for next != "" && !refused(redirects, next) {
		n := t.g.States[next]
		if n.MaxVisits == 0 || VisitsOf(t.s, next) < n.MaxVisits {
			return n, redirects
		}
		redirects = append(redirects, machine.Redirect{State: next, Guard: "max_visits:" + next})
		next = n.OnMaxVisits
	}
	return nil, redirects
}

// edgeUsedUp returns the guard of an edge that was followed as often as max_iterations allows. For other edges it returns "".
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

func refused(redirects []machine.Redirect, state string) bool {
	for i := range redirects {
		if redirects[i].State == state {
			return true
		}
	}
	return false
}

// visit makes the Transition and everything that belongs to a new visit: its first turn, the timeout,
// the conversation and the queued inputs. An edge counts as followed only if the state that was entered
// is its own target.
func (t *txn) visit(e entry, to *machine.Node, redirects []machine.Redirect) {
	tr := &machine.Transition{
		Event: e.event, To: to.Name, Intended: e.target,
		Redirects: redirects, Cause: e.cause, Artifacts: e.artifacts, Uncompensated: t.uncompensated,
	}
	if len(redirects) > 0 {
		tr.Cause = machine.CauseMaxVisits
	}
	if e.from != nil {
		tr.From = e.from.Name
		if len(redirects) == 0 && e.cause != machine.CauseBudget {
			t.follow(e.from.Name, e.event)
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
	t.own.steps = true
	t.openTurn(seq)
	t.armTimeout(to)
	if !to.Persistent {
		t.resetConversation(to.Name)
	}
	t.queueSteering()
	t.drainQueue()
}

// armTimeout sets the timeout of the state that was just entered. A terminal state has no timeout, because its events cannot be used.
func (t *txn) armTimeout(n *machine.Node) {
	t.s.StateTimeoutAt = 0
	if n.Timeout != nil && !n.Terminal {
		t.s.StateTimeoutAt = AddCapped(t.in.At, int64(n.Timeout.After))
	}
}
