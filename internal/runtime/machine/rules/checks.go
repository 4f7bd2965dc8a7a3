package rules

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// This file has the checks of semantics §4 that the machine makes, in their order. Each check returns
// nil or a *[machine.Error]. No check changes the state.

// checkOpen makes check (4): a run that has ended accepts no input.
func (t *txn) checkOpen() error {
	if !t.s.Status.Terminal() {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "RUN_TERMINAL", Field: "run_id",
		Message: fmt.Sprintf("the run ended %s (%s)", t.s.Status, t.s.Reason), Seq: t.s.Seq,
	}
}

// checkUnpaused returns an error for events and step requests while the run is paused.
func (t *txn) checkUnpaused() error {
	if !t.s.Paused {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "PAUSED", Field: "run_id",
		Message: "the run is paused; resume it first",
	}
}

// checkTurn returns an error unless the given turn is the open turn and the given attempt is its
// current attempt.
func (t *txn) checkTurn(seq uint64, attempt int) error {
	turn := t.s.Turn
	if turn != nil && turn.Seq == seq && turn.Attempt == attempt {
		return nil
	}
	r := &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "TURN_STALE", Field: "turn_seq"}
	if turn == nil {
		r.Message = fmt.Sprintf("turn %d attempt %d: no turn is open", seq, attempt)
		return r
	}
	r.Seq = turn.Seq
	r.Message = fmt.Sprintf("turn %d attempt %d: the open turn is %d attempt %d", seq, attempt, turn.Seq, turn.Attempt)
	return r
}

// CheckExpected makes check (5) of every command with an expected seq: the run's last transition must
// be the one that the caller expects. The engine makes this check before it checks the rights of the
// caller, so that the second of two competing callers learns which transition was made first. [Step]
// makes the check in every case. For a run that has ended, check (4) returns the error.
func CheckExpected(s *machine.State, c machine.Command) error {
	want := ExpectedSeq(c)
	if want == 0 || want == s.VisitSeq || s.Status.Terminal() || s.Imported {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeAborted, Reason: "SEQ_MISMATCH", Field: "expected_seq",
		Message: fmt.Sprintf("the last transition is record %d, not %d", s.VisitSeq, want),
		Seq:     s.VisitSeq,
	}
}

// checkEvent makes check (7): the state must declare the event. The events of a terminal state cannot
// be used.
func (t *txn) checkEvent(event string) error {
	n := t.node()
	if !n.Terminal && n.OnEvent[event] != "" {
		return nil
	}
	r := &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "UNKNOWN_EVENT", Field: "event",
		Message: fmt.Sprintf("state %q does not take event %q", n.Name, event),
	}
	if n.Terminal {
		r.Message = fmt.Sprintf("state %q is terminal and takes no event: the run ends when its turn is completed without one", n.Name)
		return r
	}
	r.Allowed = slices.Sorted(maps.Keys(n.OnEvent))
	return r
}
