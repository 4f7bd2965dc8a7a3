package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// ending is how a run ends.
type ending struct {
	status    machine.Status
	reason    string
	redirects []machine.Redirect
	// event is the requested event that is not followed, because the run ends. intended is the target
	// of the event. Both are "" if there is no such event.
	event, intended string
	// artifacts are the checked artifacts that are stored with the Ended record.
	artifacts []machine.ArtifactWrite
}

// end ends the run. If the run has effects to undo, they are undone first.
func (t *txn) end(e ending) {
	switch {
	case t.s.Undo != nil:
		t.divert(e)
	case e.status == machine.Completed || !t.startCompensation(e, machine.CauseUnset):
		t.finish(e)
	}
}

// finish ends the run and clears all data that could change it later.
func (t *txn) finish(e ending) {
	t.cancelSteps(whyRunEnded)
	t.closeAccount()
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

// endIfOverBudget ends a run that is over a budget. It returns false if the run is within its budgets.
// event is the event that is not followed if the run ends. It is "" if there is none.
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

// pause sets the paused flag. If the run is already paused, it has no effect.
func (t *txn) pause(c *machine.Pause) error {
	if err := t.checkOpen(); err != nil || t.s.Paused {
		return err
	}
	t.record(&machine.Paused{Note: c.Note})
	t.s.Paused = true
	return nil
}

// resume clears the paused flag. If the timeout of the state passed during the pause, the timeout event fires now.
func (t *txn) resume(c *machine.Resume) error {
	if err := t.checkOpen(); err != nil || !t.s.Paused {
		return err
	}
	t.record(&machine.Resumed{Note: c.Note})
	t.s.Paused = false
	return nil
}

// cancel ends the run as CANCELLED. The entry keeps the note of the input.
func (t *txn) cancel() error {
	if err := t.checkOpen(); err != nil {
		return err
	}
	t.end(ending{status: machine.Cancelled, reason: "cancelled"})
	return nil
}
