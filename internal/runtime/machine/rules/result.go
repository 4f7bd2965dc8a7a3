package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// result builds the Batch from the changes of the input. The rules do not track status, timers, outbox
// rows and index rows, because these are functions of the state. The batch contains the difference
// between these values before and after the input.
func (t *txn) result(d machine.Disposition) machine.Result {
	if len(t.records) == 0 && !t.consumeIDOnly() {
		return machine.Result{State: t.old, Disposition: d, Steps: t.outcomes, Refused: t.refused}
	}
	t.close()
	t.s.At = t.in.At
	if t.s.Awaiting == machine.AwaitAuth && t.s.Turn == nil && !t.s.Status.Terminal() && Covered(t.s) {
		t.s.TurnAwaiting = machine.AwaitAuth
	}
	t.s.Status, t.s.Awaiting = StatusOf(t.g, t.s), AwaitingOf(t.g, t.s)
	if t.old == nil || t.old.Status != t.s.Status || t.old.Awaiting != t.s.Awaiting {
		t.s.StatusAt = t.in.At
	}
	if !t.s.Status.Terminal() {
		t.wallClock(t.s.Status == machine.Waiting)
	}
	b := &machine.Batch{
		Input: t.in, Records: t.records, State: t.s,
		Prev:   t.records[0].Seq - 1,
		Writes: t.writes, Messages: t.messages, Effects: t.effects, Wanted: t.wanted,
	}
	t.consume(b)
	t.diffTimers(b)
	t.diffSteps(b)
	b.OutboxAdded = append(b.OutboxAdded, t.cancels...)
	t.diffIndexes(b)
	t.applyCharges(b)
	return machine.Result{State: t.s, Batch: b, Disposition: d, Steps: t.outcomes, Refused: t.refused}
}

// close continues a compensation and ends a run that is over a budget. While effects are being undone,
// of all budgets only the wall time can end the run.
func (t *txn) close() {
	t.undoNext()
	switch {
	case t.s.Status.Terminal():
	case t.s.Undo == nil:
		if !t.endIfOverBudget("", nil) {
			t.addBudgetNotice()
		}
	case t.overdue():
		t.end(ending{status: machine.BudgetExhausted, reason: "max_wall_time_sec"})
	}
	t.undoNext()
}

// consumeIDOnly stores the id of an input that made no other change. It returns false if there is
// nothing to store. If the run has ended, the id is not stored, because every later input gets the same
// answer anyway.
func (t *txn) consumeIDOnly() bool {
	if t.in.ID == "" || t.s.Status.Terminal() {
		return false
	}
	t.record(&machine.NoChange{Command: machine.KindOf(t.in.Command), ID: t.in.ID})
	return true
}

// consume marks the input's idempotency id as used.
func (t *txn) consume(b *machine.Batch) {
	if t.in.ID == "" {
		return
	}
	row := machine.Dedupe{
		Scope: machine.PerRun, Kind: machine.KindOf(t.in.Command), RunID: t.s.RunID,
		ID: t.in.ID, BodyHash: t.in.BodyHash, First: b.Prev + 1, Last: t.s.Seq,
	}
	if t.old == nil {
		row.Scope, row.Principal = machine.PerPrincipal, t.in.Principal
	}
	b.Consumed = []machine.Dedupe{row}
}

func (t *txn) diffTimers(b *machine.Batch) {
	diffTimer(b, WallTimer(t.old), WallTimer(t.s))
	diffTimer(b, RetryTimer(t.old), RetryTimer(t.s))
	diffTimer(b, StateTimer(t.old), StateTimer(t.s))
}

func diffTimer(b *machine.Batch, before, after machine.Timer) {
	if before == after {
		return
	}
	if before.Kind != 0 {
		b.TimersCleared = append(b.TimersCleared, before)
	}
	if after.Kind != 0 {
		b.TimersSet = append(b.TimersSet, after)
	}
}

// diffSteps removes the timer and the outbox row of each step attempt that has ended, and adds a timer
// and an outbox row for each new attempt.
func (t *txn) diffSteps(b *machine.Batch) {
	if !t.own.steps {
		return
	}
	if t.old != nil {
		for i := range t.old.Steps {
			if p := &t.old.Steps[i]; p.AwaitingAnswer() && !StillOut(t.s.Steps, p) {
				b.TimersCleared = append(b.TimersCleared, StepTimer(t.s, p))
				b.OutboxRemoved = appendOutbox(b.OutboxRemoved, t.g, t.s, p)
			}
		}
	}
	for i := range t.s.Steps {
		if p := &t.s.Steps[i]; p.AwaitingAnswer() && (t.old == nil || !StillOut(t.old.Steps, p)) {
			b.TimersSet = append(b.TimersSet, StepTimer(t.s, p))
			b.OutboxAdded = appendOutbox(b.OutboxAdded, t.g, t.s, p)
		}
	}
}

// appendOutbox adds the outbox row of a pending step. A model call has no row, because the turn's executor makes it. A held call has no
// row until it is approved.
func appendOutbox(rows []machine.OutboxRow, g *machine.Graph, s *machine.State, p *machine.ToolStep) []machine.OutboxRow {
	if p.Model != nil || p.HeldForApproval() {
		return rows
	}
	return append(rows, outboxRow(g, s, p))
}

// outboxRow returns the outbox row of a pending step. The row is due at the time at which the step was issued.
func outboxRow(g *machine.Graph, s *machine.State, p *machine.ToolStep) machine.OutboxRow {
	row := machine.OutboxRow{Namespace: s.Namespace, Kind: machine.OutboxStep, RunID: s.RunID, Step: p.Step, Attempt: p.Attempt}
	row.Due = p.Deadline - int64(ToolOf(g, p.Tool).Timeout)
	if p.Delegation {
		row.Kind = machine.OutboxDelegation
	}
	return row
}

// Outbox returns the outbox rows that the pending steps of a run have. It does not return rows of kind [machine.OutboxCancel], because
// they stay after the step has ended.
func Outbox(g *machine.Graph, s *machine.State) []machine.OutboxRow {
	if s.Imported {
		return nil
	}
	var rows []machine.OutboxRow
	for i := range s.Steps {
		if s.Steps[i].AwaitingAnswer() {
			rows = appendOutbox(rows, g, s, &s.Steps[i])
		}
	}
	return rows
}

func (t *txn) diffIndexes(b *machine.Batch) {
	b.Ready = ReadyOf(t.g, t.s)
	b.ReadyChanged = b.Ready
	if t.old == nil {
		b.Index = Indexes(t.s)
		return
	}
	b.ReadyChanged = b.Ready != ReadyOf(t.g, t.old)
	defer func() { b.Index = append(b.Index, HeldChanges(t.old, t.s)...) }()
	if t.old.Status != t.s.Status {
		b.Index = []machine.IndexChange{
			{Index: "status", Value: t.old.Status.String()},
			{Index: "status", Value: t.s.Status.String(), Add: true},
		}
	}
	if t.s.Task != nil && t.old.StatusAt != t.s.StatusAt {
		b.Index = append(b.Index, Task(t.old, false), Task(t.s, true))
	}
}

// Ready reports whether a run's turn belongs in the ready index.
func Ready(g *machine.Graph, s *machine.State) bool { return !s.Imported && ReadyOf(g, s) }

// Executable reports whether a run's turn can be executed now by its executor.
func Executable(g *machine.Graph, s *machine.State) bool {
	return !s.Imported && ExecutableOf(g, s)
}

// Rests reports whether a run has nothing to execute until an input or event arrives from outside, or
// permanently.
func Rests(g *machine.Graph, s *machine.State) bool { return RestsOf(g, s) }

// Indexes returns a run's rows in the list indexes.
func Indexes(s *machine.State) []machine.IndexChange { return Of(s) }
