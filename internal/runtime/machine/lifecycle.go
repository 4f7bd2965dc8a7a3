package machine

// ending is how a run ends.
type ending struct {
	status    Status
	reason    string
	redirects []Redirect
	// event was asked for and leads to intended; "" = none is lost.
	event, intended string
	// artifacts were checked and are stored with the Ended record.
	artifacts []ArtifactWrite
}

// end makes the last record of the run and clears all that could move it.
func (t *txn) end(e ending) {
	t.cancelSteps(whyRunEnded)
	ended := &Ended{Status: e.status, Reason: e.reason, Redirects: e.redirects, Artifacts: e.artifacts}
	if t.rules.endTellsEvent {
		ended.Event, ended.Intended = e.event, e.intended
	}
	seq := t.record(ended)
	t.write(e.artifacts, seq)
	s := t.s
	s.Status, s.Reason = e.status, e.reason
	s.Turn, s.Queue, s.Paused = nil, nil, false
	s.Deadline, s.WallLeft, s.StateTimeoutAt = 0, 0, 0
}

// endIfOverBudget ends a run that is over a budget and says whether it did. event
// is lost by that; "" = none was asked for.
func (t *txn) endIfOverBudget(event string, artifacts []ArtifactWrite) bool {
	reason := t.overBudget()
	if reason == "" {
		return false
	}
	e := ending{status: BudgetExhausted, reason: reason, artifacts: artifacts, event: event}
	if event != "" {
		e.intended = t.node().OnEvent[event]
	}
	t.end(e)
	return true
}

// pause sets the flag; pausing a paused run changes nothing.
func (t *txn) pause(c *Pause) error {
	if err := t.checkOpen(); err != nil || t.s.Paused {
		return err
	}
	t.record(&Paused{Note: c.Note})
	t.s.Paused = true
	return nil
}

// resume clears the flag; a state timeout that passed meanwhile fires then.
func (t *txn) resume(c *Resume) error {
	if err := t.checkOpen(); err != nil || !t.s.Paused {
		return err
	}
	t.record(&Resumed{Note: c.Note})
	t.s.Paused = false
	return nil
}

// cancel ends the run CANCELLED; the input's note stays in its entry.
func (t *txn) cancel() error {
	if err := t.checkOpen(); err != nil {
		return err
	}
	t.end(ending{status: Cancelled, reason: "cancelled"})
	return nil
}
