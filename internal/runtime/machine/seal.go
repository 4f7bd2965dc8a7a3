package machine

// result turns what the input made into a Batch. Status, timers, outbox rows
// and index changes are not kept track of on the way: they are functions of the
// state, and the batch holds the difference between before and after.
func (t *txn) result(d Disposition) Result {
	if len(t.records) == 0 && !t.note() {
		return Result{State: t.old, Disposition: d, Steps: t.outcomes, Refused: t.refused}
	}
	if !t.s.Status.Terminal() {
		t.endIfOverBudget("", nil)
	}
	t.s.At = t.in.At
	t.s.Status, t.s.Awaiting = statusOf(t.g, t.s), awaitingOf(t.g, t.s)
	if t.old == nil || t.old.Status != t.s.Status || t.old.Awaiting != t.s.Awaiting {
		t.s.StatusAt = t.in.At
	}
	if !t.s.Status.Terminal() {
		t.wallClock(t.s.Status == Waiting)
	}
	b := &Batch{
		Input: t.in, Records: t.records, State: t.s,
		Prev:   t.records[0].Seq - 1,
		Writes: t.writes, Messages: t.messages,
	}
	t.consume(b)
	t.diffTimers(b)
	t.diffSteps(b)
	b.OutboxAdded = append(b.OutboxAdded, t.cancels...)
	t.diffIndexes(b)
	return Result{State: t.s, Batch: b, Disposition: d, Steps: t.outcomes, Refused: t.refused}
}

// note keeps the id of an input that changes nothing, and says whether it did. A run
// that has ended answers the same for ever without.
func (t *txn) note() bool {
	if t.in.ID == "" || t.s.Status.Terminal() {
		return false
	}
	t.record(&Noted{Command: KindOf(t.in.Command), ID: t.in.ID})
	return true
}

// Noted reports whether the batch does nothing but keep the id of its input.
func (b *Batch) Noted() bool {
	if len(b.Records) != 1 {
		return false
	}
	_, noted := b.Records[0].Body.(*Noted)
	return noted
}

// consume uses up the input's idempotency id.
func (t *txn) consume(b *Batch) {
	if t.in.ID == "" {
		return
	}
	row := Dedupe{
		Scope: PerRun, Kind: KindOf(t.in.Command), RunID: t.s.RunID,
		ID: t.in.ID, BodyHash: t.in.BodyHash, First: b.Prev + 1, Last: t.s.Seq,
	}
	if t.old == nil {
		row.Scope, row.Principal = PerPrincipal, t.in.Principal
	}
	b.Consumed = []Dedupe{row}
}

// wallTimer, stateTimer and retryTimer are the timers that a state implies; a
// zero Timer is none.
func wallTimer(s *State) Timer {
	if s == nil || s.Deadline == 0 {
		return Timer{}
	}
	return Timer{Namespace: s.Namespace, Due: s.Deadline, RunID: s.RunID, Kind: TimerWall}
}

// stateTimer is off while the run is paused: a paused run takes no events.
func stateTimer(s *State) Timer {
	if s == nil || s.StateTimeoutAt == 0 || s.Paused {
		return Timer{}
	}
	return Timer{Namespace: s.Namespace, Due: s.StateTimeoutAt, RunID: s.RunID, Kind: TimerState}
}

func retryTimer(s *State) Timer {
	if s == nil || s.Turn == nil || s.Turn.NotBefore == 0 {
		return Timer{}
	}
	return Timer{Namespace: s.Namespace, Due: s.Turn.NotBefore, RunID: s.RunID, Kind: TimerRetry, Turn: s.Turn.Seq}
}

func stepTimer(s *State, step *ToolStep) Timer {
	return Timer{Namespace: s.Namespace, Due: step.Deadline, RunID: s.RunID, Kind: TimerStep, Step: step.Step}
}

// Timers lists the durable timers that a run must have, no more and no less;
// the store's check compares them with its rows.
// An imported run has none, no outbox rows and no turn to offer.
func Timers(s *State) []Timer {
	if s.Imported {
		return nil
	}
	var timers []Timer
	for _, timer := range [...]Timer{wallTimer(s), retryTimer(s), stateTimer(s)} {
		if timer.Kind != 0 {
			timers = append(timers, timer)
		}
	}
	for i := range s.Steps {
		if s.Steps[i].Status == StepStatusPending {
			timers = append(timers, stepTimer(s, &s.Steps[i]))
		}
	}
	return timers
}

func (t *txn) diffTimers(b *Batch) {
	diffTimer(b, wallTimer(t.old), wallTimer(t.s))
	diffTimer(b, retryTimer(t.old), retryTimer(t.s))
	diffTimer(b, stateTimer(t.old), stateTimer(t.s))
}

func diffTimer(b *Batch, before, after Timer) {
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

// diffSteps removes timer and outbox row of each step execution that is over
// and adds them for each new one.
func (t *txn) diffSteps(b *Batch) {
	if !t.own.steps {
		return
	}
	if t.old != nil {
		for i := range t.old.Steps {
			if p := &t.old.Steps[i]; p.Status == StepStatusPending && !stillOut(t.s.Steps, p) {
				b.TimersCleared = append(b.TimersCleared, stepTimer(t.s, p))
				b.OutboxRemoved = append(b.OutboxRemoved, outboxRow(t.g, t.s, p))
			}
		}
	}
	for i := range t.s.Steps {
		if p := &t.s.Steps[i]; p.Status == StepStatusPending && (t.old == nil || !stillOut(t.old.Steps, p)) {
			b.TimersSet = append(b.TimersSet, stepTimer(t.s, p))
			b.OutboxAdded = append(b.OutboxAdded, outboxRow(t.g, t.s, p))
		}
	}
}

// stillOut: the same execution of the step is pending among steps.
func stillOut(steps []ToolStep, p *ToolStep) bool {
	i := findStep(steps, p.Step)
	return i >= 0 && steps[i].Status == StepStatusPending && steps[i].Attempt == p.Attempt
}

// outboxRow is the work that a pending step stands for, due since it was issued.
func outboxRow(g *Graph, s *State, p *ToolStep) OutboxRow {
	row := OutboxRow{Namespace: s.Namespace, Kind: OutboxStep, RunID: s.RunID, Step: p.Step, Attempt: p.Attempt}
	row.Due = p.Deadline - int64(toolOf(g, p.Tool).Timeout)
	if p.Delegation {
		row.Kind = OutboxDelegation
	}
	return row
}

// Outbox lists the rows of steps that a run must have; rows of kind
// [OutboxCancel] outlive what made them and are not among them.
func Outbox(g *Graph, s *State) []OutboxRow {
	if s.Imported {
		return nil
	}
	var rows []OutboxRow
	for i := range s.Steps {
		if s.Steps[i].Status == StepStatusPending {
			rows = append(rows, outboxRow(g, s, &s.Steps[i]))
		}
	}
	return rows
}

func (t *txn) diffIndexes(b *Batch) {
	b.Ready = readyOf(t.g, t.s)
	b.ReadyChanged = b.Ready
	if t.old == nil {
		b.Index = Indexes(t.s)
		return
	}
	b.ReadyChanged = b.Ready != readyOf(t.g, t.old)
	if t.old.Status != t.s.Status {
		b.Index = []IndexChange{
			{Index: "status", Value: t.old.Status.String()},
			{Index: "status", Value: t.s.Status.String(), Add: true},
		}
	}
	if t.s.Task != nil && t.old.StatusAt != t.s.StatusAt {
		b.Index = append(b.Index, taskRow(t.old, false), taskRow(t.s, true))
	}
}

// Ready reports whether a run's turn belongs in the ready index.
func Ready(g *Graph, s *State) bool { return !s.Imported && readyOf(g, s) }

// Indexes lists a run's rows in the list indexes. An imported run is found by
// pack, label and, if it had ended, by status: it is not one that goes on, nor
// anybody's child or task.
func Indexes(s *State) []IndexChange {
	var rows []IndexChange
	if !s.Imported || s.Status.Terminal() {
		rows = append(rows, IndexChange{Index: "status", Value: s.Status.String(), Add: true})
	}
	rows = append(rows, []IndexChange{
		{Index: "pack", Value: s.PackID, Add: true},
		{Index: "pack", Value: s.PackID + "@" + s.PackVersion, Add: true},
		{Index: "pack", Value: s.Digest, Add: true},
	}...)
	for _, l := range s.Labels {
		rows = append(rows, IndexChange{Index: "label", Value: l.Key + "=" + l.Value, Add: true})
	}
	if s.Imported {
		return rows
	}
	if s.Parent != nil {
		rows = append(rows, IndexChange{Index: "parent", Value: s.Parent.RunID, Add: true})
	}
	return append(rows, taskIndexes(s)...)
}
