package rules

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// txn is one Step in progress. It has a private copy of the state, and the records and changes that the
// input has made so far. The copy is shallow: a slice or turn is copied before its first change. The
// flags in owned record which parts were copied.
type txn struct {
	g   *machine.Graph
	old *machine.State
	s   *machine.State
	in  machine.Input
	// rules are the rules of the input's semantics version.
	rules *ruleset

	records  []machine.Record
	writes   []machine.ArtifactVersion
	messages []machine.MessageRow
	cancels  []machine.OutboxRow
	outcomes []machine.StepOutcome
	effects  []machine.EffectChange
	wanted   [][32]byte
	// uncompensated are the effects that a compensation could not undo.
	uncompensated []machine.UncompensatedEffect
	refused       error
	own           owned
}

// owned records which parts of txn.s were copied and are no longer shared with the old state.
type owned struct{ turn, steps, artifacts, conversations bool }

func newTxn(g *machine.Graph, s *machine.State, in machine.Input) (txn, error) {
	rules, err := rulesOf(in.Semantics)
	state := *s
	state.Awaiting, state.TurnAwaiting = TurnAwaitingOf(s), machine.AwaitNothing
	in.At = max(in.At, s.At)
	return txn{g: g, old: s, s: &state, in: in, rules: rules}, err
}

// node returns the workflow state that the run is in.
func (t *txn) node() *machine.Node { return t.g.States[t.s.Current] }

// record appends one record to the batch and returns its seq.
func (t *txn) record(b machine.Body) uint64 {
	if t.records == nil {
		t.records = make([]machine.Record, 0, 2)
	}
	t.s.Seq++
	t.records = append(t.records, machine.Record{Seq: t.s.Seq, At: t.in.At, Principal: t.in.Principal, Body: b})
	return t.s.Seq
}

// turn returns the open turn, for modification.
func (t *txn) turn() *machine.Turn {
	if !t.own.turn {
		turn := *t.s.Turn
		t.s.Turn, t.own.turn = &turn, true
	}
	return t.s.Turn
}

// openTurn opens a turn that was recorded as seq.
func (t *txn) openTurn(seq uint64) {
	t.s.Turn, t.own.turn = &machine.Turn{Seq: seq, Attempt: 1}, true
}

// steps returns the steps of the visit, for modification.
func (t *txn) steps() []machine.ToolStep {
	if !t.own.steps {
		t.s.Steps, t.own.steps = slices.Clone(t.s.Steps), true
	}
	return t.s.Steps
}

// bump increments the number of visits of a state and returns the new number.
func (t *txn) bump(state string) int {
	i := slices.IndexFunc(t.s.Visits, func(c machine.Count) bool { return c.State == state })
	if i < 0 {
		t.s.Visits = append(slices.Clip(t.s.Visits), machine.Count{State: state, N: 1})
		return 1
	}
	t.s.Visits = slices.Clone(t.s.Visits)
	t.s.Visits[i].N++
	return t.s.Visits[i].N
}

// follow counts one use of an edge.
func (t *txn) follow(state, event string) {
	i := slices.IndexFunc(t.s.Edges, func(c machine.EdgeCount) bool { return c.State == state && c.Event == event })
	if i < 0 {
		t.s.Edges = append(slices.Clip(t.s.Edges), machine.EdgeCount{State: state, Event: event, N: 1})
		return
	}
	t.s.Edges = slices.Clone(t.s.Edges)
	t.s.Edges[i].N++
}
