package rules

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// result builds the Batch from the changes of the input. An input without a record makes no Batch.
// Status, timers, outbox rows and index rows are functions of the state, so the batch contains the
// difference between their values before and after the input.
func (t *txn) result(d machine.Disposition) machine.Result {
	if len(t.records) == 0 && !t.consumeIDOnly() {
		return machine.Result{State: t.old, Disposition: d, Steps: t.outcomes, Refused: t.refusedErr}
	}
	t.close()
	t.evaluate()
	t.s.At = t.input.At
	if t.s.Awaiting == machine.AwaitAuth && t.s.Turn == nil && !t.s.Status.Terminal() && WaitsForOther(t.s) {
		t.s.TurnAwaiting = machine.AwaitAuth
	}
	t.s.Status, t.s.Awaiting = StatusOf(t.g, t.s), AwaitingOf(t.g, t.s)
	if t.old == nil || t.old.Status != t.s.Status || t.old.Awaiting != t.s.Awaiting {
		t.s.StatusAt = t.input.At
	}
	if !t.s.Status.Terminal() {
		t.wallClock(t.s.Status == machine.Waiting)
	}
	b := &machine.Batch{
		Input: t.input, Records: t.records, State: t.s,
		Prev:   t.records[0].Seq - 1,
		Writes: t.writes, Messages: t.messages, Effects: t.effects, Wanted: t.wanted, Settled: t.settled,
	}
	t.consume(b)
	t.diffTimers(b)
	t.diffSteps(b)
	b.OutboxAdded = append(b.OutboxAdded, t.cancels...)
	t.diffIndexes(b)
	t.applyCharges(b)
	return machine.Result{State: t.s, Batch: b, Disposition: d, Steps: t.outcomes, Refused: t.refusedErr}
}

// close finishes an input: it continues a compensation, and ends a run that is over a budget. While effects are being
// undone, only the wall time can end the run, and no other budget.
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

// consumeIDOnly records the idempotency id of an input that made no other change. It returns false if the input has no
// id, or if the run has ended: every later input to an ended run gets the same answer anyway.
func (t *txn) consumeIDOnly() bool {
	if t.input.ID == "" || t.s.Status.Terminal() {
		return false
	}
	t.record(&machine.NoChange{Command: machine.KindOf(t.input.Command), ID: t.input.ID})
	return true
}

// consume marks the input's idempotency id as used.
func (t *txn) consume(b *machine.Batch) {
	if t.input.ID == "" {
		return
	}
	row := machine.Dedupe{
		Scope: machine.PerRun, Kind: machine.KindOf(t.input.Command), RunID: t.s.RunID,
		ID: t.input.ID, BodyHash: t.input.BodyHash, First: b.Prev + 1, Last: t.s.Seq,
	}
	if t.old == nil {
		row.Scope, row.Principal = machine.PerPrincipal, t.input.Principal
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
// and an outbox row for each new attempt. A decision about a held call also replaces them.
func (t *txn) diffSteps(b *machine.Batch) {
	if !t.copied.steps {
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

// appendOutbox adds the outbox row that sends a pending step. A model call has no row, because the executor of the turn
// makes it. A call that waits for approval has no row yet.
func appendOutbox(rows []machine.OutboxRow, g *machine.Graph, s *machine.State, p *machine.ToolStep) []machine.OutboxRow {
	if p.Model != nil || p.HeldForApproval() {
		return rows
	}
	return append(rows, outboxRow(g, s, p))
}

// outboxRow returns the outbox row of a pending step. It is due at the time at which the current attempt was issued, or
// after its pause.
func outboxRow(g *machine.Graph, s *machine.State, p *machine.ToolStep) machine.OutboxRow {
	row := machine.OutboxRow{Namespace: s.Namespace, Kind: machine.OutboxStep, RunID: s.RunID, Step: p.Step, Attempt: p.Attempt}
	row.Due = p.Deadline - int64(ToolOf(g, p.Tool).Timeout)
	if p.Delegation {
		row.Kind = machine.OutboxDelegation
	}
	return row
}

// Outbox returns the outbox rows that the pending steps of a run must have. Rows of the kind [machine.OutboxCancel] are
// not returned, because they do not depend on the state: they stay after the step has ended.
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

// diffIndexes adds to the batch how the rows change by which the run is listed: its ready turn and its index rows.
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

// Ready reports whether a run is in the ready index: whether its turn can be sent to a worker.
func Ready(g *machine.Graph, s *machine.State) bool { return !s.Imported && ReadyOf(g, s) }

// Executable reports whether the turn of a run can be executed now. The kind of executor does not matter.
func Executable(g *machine.Graph, s *machine.State) bool {
	return !s.Imported && ExecutableOf(g, s)
}

// IsAtRest reports whether a run has nothing to execute until an input or event arrives from outside. It is also true for
// a run that has ended.
func IsAtRest(g *machine.Graph, s *machine.State) bool { return RestsOf(g, s) }

// Indexes returns the rows that a run has in the indexes by which runs are listed.
func Indexes(s *machine.State) []machine.IndexChange { return IndexRows(s) }

// StatusOf returns the status of a run (semantics §2). A run that has not ended is RUNNING while its turn is ready or
// being executed. It is WAITING while only an input, an outside event, a step's answer or a timer can change it. It is
// also WAITING while a call waits for approval or an agent asks a question, even if its turn is being executed. A paused
// run keeps its status.
func StatusOf(g *machine.Graph, s *machine.State) machine.Status {
	if s.Status.Terminal() {
		return s.Status
	}
	t := s.Turn
	if s.Undo != nil || t == nil || t.Suspended || t.NotBefore != 0 || AskingDelegation(s.Steps) != nil || FirstHeld(s.Steps) != nil || g.States[s.Current].Orchestration == machine.External {
		return machine.Waiting
	}
	return machine.Running
}

// ReadyOf reports whether the run's turn must be offered to workers with leases.
func ReadyOf(g *machine.Graph, s *machine.State) bool {
	return s.Execution.Leased() && ExecutableOf(g, s)
}

// ExecutableOf reports whether the run's turn can be executed now. A turn of a paused run cannot.
func ExecutableOf(g *machine.Graph, s *machine.State) bool {
	return !s.Paused && StatusOf(g, s) == machine.Running
}

// RestsOf reports whether no turn can be executed until an input or event arrives from outside. A run whose turn waits
// for steps, or whose effects are being undone, does not rest: it continues by itself.
func RestsOf(g *machine.Graph, s *machine.State) bool {
	return s.Status.Terminal() || s.Undo == nil && (s.Turn == nil || g.States[s.Current].Orchestration == machine.External)
}

// AwaitingOf returns what a run waits for from outside. It returns the first of these that applies: an answer to an
// agent's question; a decision about a call that waits for approval; what the last turn requested to wait for; an input
// or event, if that can change the run. While effects are being undone, only an agent's question counts.
func AwaitingOf(g *machine.Graph, s *machine.State) machine.Awaiting {
	if s.Status.Terminal() {
		return machine.AwaitNothing
	}
	if asking := AskingDelegation(s.Steps); asking != nil {
		return asking.Remote.Asking
	}
	switch {
	case s.Undo != nil:
		return machine.AwaitNothing
	case FirstHeld(s.Steps) != nil:
		return machine.AwaitInput
	case s.Turn == nil && s.Awaiting == machine.AwaitAuth:
		return machine.AwaitAuth
	case s.Turn == nil, g.States[s.Current].Orchestration == machine.External:
		return machine.AwaitInput
	}
	return machine.AwaitNothing
}

// TurnAwaitingOf returns what the last turn of a run requested to wait for, even if the run waits for something else
// first. An agent's question is not a request of the turn.
func TurnAwaitingOf(s *machine.State) machine.Awaiting {
	switch {
	case s.Status.Terminal() || s.Turn != nil:
		return machine.AwaitNothing
	case WaitsForOther(s):
		return s.TurnAwaiting
	}
	return s.Awaiting
}

// WaitsForOther reports whether the run first waits for something else than its last turn requested: the compensation of its
// effects, an agent's question or a held call.
func WaitsForOther(s *machine.State) bool {
	return s.Undo != nil || AskingDelegation(s.Steps) != nil || FirstHeld(s.Steps) != nil
}

// AskingDelegation returns the first pending delegation whose agent asks a question, or nil.
func AskingDelegation(steps []machine.ToolStep) *machine.ToolStep {
	for i := range steps {
		if p := &steps[i]; p.Status == machine.StepStatusPending && p.Remote != nil && p.Remote.Asking != machine.AwaitNothing {
			return p
		}
	}
	return nil
}

// FirstHeld returns the first call that waits for a decision, or nil.
func FirstHeld(steps []machine.ToolStep) *machine.ToolStep {
	for i := range steps {
		if steps[i].HeldForApproval() {
			return &steps[i]
		}
	}
	return nil
}

// OutcomeAt returns the status and reason of a run that completes in the terminal state n.
func OutcomeAt(n *machine.Node) (machine.Status, string) {
	if n.Outcome == machine.Failed {
		return machine.Failed, "outcome:" + n.Name
	}
	return machine.Completed, "completed"
}

// IndexRows returns the rows of a run in the list indexes. An imported run has rows only for its pack, its labels and, if it
// has ended, its status. It is never listed as an active run, as a child or as a task.
func IndexRows(s *machine.State) []machine.IndexChange {
	var out []machine.IndexChange
	if !s.Imported || s.Status.Terminal() {
		out = append(out, machine.IndexChange{Index: "status", Value: s.Status.String(), Add: true})
	}
	out = append(out, []machine.IndexChange{
		{Index: "pack", Value: s.PackID, Add: true},
		{Index: "pack", Value: s.PackID + "@" + s.PackVersion, Add: true},
		{Index: "pack", Value: s.Digest, Add: true},
	}...)
	for _, l := range s.Labels {
		out = append(out, machine.IndexChange{Index: "label", Value: l.Key + "=" + l.Value, Add: true})
	}
	if s.Imported {
		return out
	}
	if s.Parent != nil {
		out = append(out, machine.IndexChange{Index: "parent", Value: s.Parent.RunID, Add: true})
	}
	out = append(out, heldIndex(s)...)
	return append(out, taskIndexes(s)...)
}

// taskIndexes returns the index rows by which the A2A tasks of an owner are listed. One row orders the tasks by the
// time of their last status, the newest first. The other row groups them by their context.
func taskIndexes(s *machine.State) []machine.IndexChange {
	if s.Task == nil {
		return nil
	}
	return []machine.IndexChange{
		Task(s, true),
		{Index: "context", Value: s.Task.Owner + "\x00" + s.Task.ContextID, Add: true},
	}
}

// Task returns the index row that orders an owner's A2A tasks by the time of their last status, the newest first.
func Task(s *machine.State, add bool) machine.IndexChange {
	return machine.IndexChange{Index: "task", Value: fmt.Sprintf("%s\x00%016x", s.Task.Owner, uint64(math.MaxInt64-s.StatusAt)), Add: add}
}

// heldIndex returns the index rows of what the run waits for from persons: calls that wait for approval, and events.
func heldIndex(s *machine.State) []machine.IndexChange {
	var rows []machine.IndexChange
	for _, row := range machine.HeldRows(s) {
		rows = append(rows, machine.IndexChange{Index: machine.HeldIndex, Value: machine.HeldValue(row.Since, row.Step), Add: true})
	}
	return rows
}

// HeldChanges returns the rows of the index [machine.HeldIndex] that an input adds and removes.
func HeldChanges(old, s *machine.State) (changes []machine.IndexChange) {
	before, after := heldIndex(old), heldIndex(s)
	for _, row := range before {
		if !slices.Contains(after, row) {
			row.Add = false
			changes = append(changes, row)
		}
	}
	for _, row := range after {
		if !slices.Contains(before, row) {
			changes = append(changes, row)
		}
	}
	return changes
}

// WallTimer returns the timer that ends the run when its wall time is used up. It returns a zero Timer if the run has
// no limit or its clock is stopped.
func WallTimer(s *machine.State) machine.Timer {
	if s == nil || s.Deadline == 0 {
		return machine.Timer{}
	}
	return machine.Timer{Namespace: s.Namespace, Due: s.Deadline, RunID: s.RunID, Kind: machine.TimerWall}
}

// StateTimer returns the timer of the current state's timeout. It returns a zero Timer if there is no timeout, or if
// the run is paused, because a paused run accepts no events.
func StateTimer(s *machine.State) machine.Timer {
	if s == nil || s.StateTimeoutAt == 0 || s.Paused {
		return machine.Timer{}
	}
	return machine.Timer{Namespace: s.Namespace, Due: s.StateTimeoutAt, RunID: s.RunID, Kind: machine.TimerState}
}

// RetryTimer returns the timer that makes a turn ready when its pause after a failed attempt has ended. It returns a
// zero Timer if there is none.
func RetryTimer(s *machine.State) machine.Timer {
	if s == nil || s.Turn == nil || s.Turn.NotBefore == 0 {
		return machine.Timer{}
	}
	return machine.Timer{Namespace: s.Namespace, Due: s.Turn.NotBefore, RunID: s.RunID, Kind: machine.TimerRetry, Turn: s.Turn.Seq}
}

// StepTimer returns the timer of a step's deadline.
func StepTimer(s *machine.State, step *machine.ToolStep) machine.Timer {
	return machine.Timer{Namespace: s.Namespace, Due: step.Deadline, RunID: s.RunID, Kind: machine.TimerStep, Step: step.Step}
}

// Timers returns all durable timers that a run must have. The store's check compares them with the stored timer rows.
// An imported run has none.
func Timers(s *machine.State) []machine.Timer {
	if s.Imported {
		return nil
	}
	var timers []machine.Timer
	for _, timer := range [...]machine.Timer{WallTimer(s), RetryTimer(s), StateTimer(s)} {
		if timer.Kind != 0 {
			timers = append(timers, timer)
		}
	}
	for i := range s.Steps {
		if s.Steps[i].AwaitingAnswer() {
			timers = append(timers, StepTimer(s, &s.Steps[i]))
		}
	}
	return timers
}

// VisitsOf returns how often a state was entered.
func VisitsOf(s *machine.State, state string) int {
	for i := range s.Visits {
		if s.Visits[i].State == state {
			return s.Visits[i].N
		}
	}
	return 0
}

// CalledTimes returns how often a tool was called in the run. Only tools with their own bound of calls are counted.
func CalledTimes(s *machine.State, tool string) int {
	for i := range s.Called {
		if s.Called[i].State == tool {
			return s.Called[i].N
		}
	}
	return 0
}

// FollowedTimes returns how often the run has left a state by an event and has entered the event's target. A refused target
// does not count.
func FollowedTimes(s *machine.State, state, event string) int {
	for i := range s.Edges {
		if s.Edges[i].State == state && s.Edges[i].Event == event {
			return s.Edges[i].N
		}
	}
	return 0
}

// OrDefault returns n, or def if n is 0.
func OrDefault[N int | int64 | time.Duration](n, def N) N {
	if n == 0 {
		return def
	}
	return n
}

// AddCapped adds two numbers that are not negative. If the sum overflows, it returns the largest int64, so that a very
// large counter never becomes negative.
func AddCapped(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// KeepsLedger reports whether a step of the run is issued only if its maximum consumption fits in the budget.
func KeepsLedger(g *machine.Graph, s *machine.State) bool {
	return g.Ledger || s.Account != nil && s.Account.Leased
}

// Visits returns the states that two runs have visited a different number of times, sorted by name.
func Visits(a, b *machine.State) []machine.CountChange {
	return diffCounts(visitCounts(a), visitCounts(b))
}

// Edges returns the edges that two runs have followed a different number of times. An edge is an event of a state, and
// is named "state.Event".
func Edges(a, b *machine.State) []machine.CountChange {
	return diffCounts(edgeCounts(a), edgeCounts(b))
}

func visitCounts(s *machine.State) map[string]int64 {
	counts := make(map[string]int64, len(s.Visits))
	for _, c := range s.Visits {
		counts[c.State] = int64(c.N)
	}
	return counts
}

func edgeCounts(s *machine.State) map[string]int64 {
	counts := make(map[string]int64, len(s.Edges))
	for _, c := range s.Edges {
		counts[c.State+"."+c.Event] = int64(c.N)
	}
	return counts
}

// diffCounts returns the counts that differ, sorted by name.
func diffCounts(a, b map[string]int64) []machine.CountChange {
	var changes []machine.CountChange
	for name, n := range a {
		if b[name] != n {
			changes = append(changes, machine.CountChange{Name: name, Base: n, Other: b[name]})
		}
	}
	for name, n := range b {
		if _, both := a[name]; !both {
			changes = append(changes, machine.CountChange{Name: name, Other: n})
		}
	}
	slices.SortFunc(changes, func(x, y machine.CountChange) int { return strings.Compare(x.Name, y.Name) })
	return changes
}

// Budgets returns the counters of budgets that differ between two states, in a fixed order. The function steps returns
// the number of tool and agent calls of a state.
func Budgets(a, b *machine.State, steps func(*machine.State) int64) []machine.CountChange {
	var changes []machine.CountChange
	for _, c := range []machine.CountChange{
		{Name: "total_visits", Base: int64(a.TotalVisits), Other: int64(b.TotalVisits)},
		{Name: "transitions", Base: int64(a.Transitions), Other: int64(b.Transitions)},
		{Name: "tool_calls", Base: int64(a.ToolCalls), Other: int64(b.ToolCalls)},
		{Name: "steps", Base: steps(a), Other: steps(b)},
		{Name: "model_calls", Base: int64(a.ModelSteps), Other: int64(b.ModelSteps)},
		{Name: "reframes", Base: int64(a.Reframes), Other: int64(b.Reframes)},
		{Name: "tokens", Base: a.Tokens, Other: b.Tokens},
		{Name: "cost_micro_usd", Base: a.CostMicro, Other: b.CostMicro},
		{Name: "artifact_bytes", Base: a.ArtifactBytes, Other: b.ArtifactBytes},
		{Name: "message_bytes", Base: a.MessageBytes, Other: b.MessageBytes},
	} {
		if c.Base != c.Other {
			changes = append(changes, c)
		}
	}
	return changes
}
