package machine

import (
	"fmt"
	"maps"
	"slices"
)

// The checks of section 4 that the machine makes, in their order. Each returns
// a *Refusal as an error or nil, and none changes anything.

// checkOpen is check (4): a terminal run takes nothing any more.
func (t *txn) checkOpen() error {
	if !t.s.Status.Terminal() {
		return nil
	}
	return &Refusal{
		Code: CodeFailedPrecondition, Reason: "RUN_TERMINAL", Field: "run_id",
		Message: fmt.Sprintf("the run ended %s (%s)", t.s.Status, t.s.Reason), Seq: t.s.Seq,
	}
}

// checkUnpaused refuses events and step requests of a paused run.
func (t *txn) checkUnpaused() error {
	if !t.s.Paused {
		return nil
	}
	return &Refusal{
		Code: CodeFailedPrecondition, Reason: "PAUSED", Field: "run_id",
		Message: "the run is paused; resume it first",
	}
}

// checkTurn demands that the named turn is the open one in its current attempt.
func (t *txn) checkTurn(seq uint64, attempt int) error {
	turn := t.s.Turn
	if turn != nil && turn.Seq == seq && turn.Attempt == attempt {
		return nil
	}
	r := &Refusal{Code: CodeFailedPrecondition, Reason: "TURN_STALE", Field: "turn_seq"}
	if turn == nil {
		r.Message = fmt.Sprintf("turn %d attempt %d: no turn is open", seq, attempt)
		return r
	}
	r.Seq = turn.Seq
	r.Message = fmt.Sprintf("turn %d attempt %d: the open turn is %d attempt %d", seq, attempt, turn.Seq, turn.Attempt)
	return r
}

// checkSeq is check (6). want 0 = not asked.
func (t *txn) checkSeq(want uint64) error {
	if want == 0 || want == t.s.VisitSeq {
		return nil
	}
	return &Refusal{
		Code: CodeAborted, Reason: "SEQ_MISMATCH", Field: "expected_seq",
		Message: fmt.Sprintf("the last transition is record %d, not %d", t.s.VisitSeq, want),
		Seq:     t.s.VisitSeq,
	}
}

// checkEvent is check (7). A terminal state's on_event never fires.
func (t *txn) checkEvent(event string) error {
	n := t.node()
	if !n.Terminal && n.OnEvent[event] != "" {
		return nil
	}
	r := &Refusal{
		Code: CodeFailedPrecondition, Reason: "UNKNOWN_EVENT", Field: "event",
		Message: fmt.Sprintf("state %q does not take event %q", n.Name, event),
	}
	if n.Terminal {
		r.Message = fmt.Sprintf("state %q is terminal and takes no event: the run ends when its turn is completed without one", n.Name)
		return r
	}
	r.Allowed = slices.Sorted(maps.Keys(n.OnEvent))
	return r
}

// first returns the first error of the checks, made in order.
func first(checks ...error) error {
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	return nil
}
