package rules

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Step applies one input to a run. If s is nil, the run does not exist yet, and only [machine.Start]
// and [machine.Fork] are accepted.
//
// The error is always a *[machine.Error] and means that the input had no effect. A Result without a
// Batch also means that the input had no effect. In this case Result.Disposition tells whether the
// input was stale or a duplicate. If an input without effect has an id and the run has not ended, a
// [machine.NoChange] record stores the id.
//
// Step does not change g, s or anything that they refer to. The caller must not change anything that
// the Result refers to. g must satisfy [machine.CheckGraph].
func Step(g *machine.Graph, s *machine.State, in machine.Input) (machine.Result, error) {
	if start, ok := in.Command.(machine.Start); ok {
		return begin(g, s, in, start)
	}
	if fork, ok := in.Command.(machine.Fork); ok {
		return beginFork(g, s, in, fork)
	}
	if s == nil {
		return machine.Result{}, &machine.Error{Code: machine.CodeNotFound, Reason: "RUN_NOT_FOUND", Field: "run_id", Message: "no such run"}
	}
	if g.States[s.Current] == nil || g.Digest != s.Digest {
		return machine.Result{State: s}, &machine.Error{
			Code: machine.CodeInternal, Reason: "GRAPH_MISMATCH",
			Message: fmt.Sprintf("the run is in state %q of pack %s, the graph is of %s", s.Current, s.Digest, g.Digest),
		}
	}
	if s.Imported {
		return machine.Result{State: s}, ImportedRunError()
	}
	t, err := newTxn(g, s, in)
	if err != nil {
		return machine.Result{State: s}, err
	}
	if err := CheckExpected(s, in.Command); err != nil {
		return machine.Result{State: s}, err
	}
	disposition, err := t.dispatch()
	if err != nil {
		return machine.Result{State: s}, err
	}
	return t.result(disposition), nil
}

// dispatch calls the function that handles the command of the input.
func (t *txn) dispatch() (machine.Disposition, error) {
	if err := t.checkSettled(); err != nil {
		return 0, err
	}
	switch c := t.input.Command.(type) {
	case machine.EmitEvent:
		return machine.Accepted, t.emit(&c)
	case machine.CompleteTurn:
		return machine.Accepted, t.complete(&c)
	case machine.SendInput:
		return machine.Accepted, t.sendInput(&c)
	case machine.SetArtifacts:
		return machine.Accepted, t.setArtifacts(&c)
	case machine.FailTurn:
		return t.fail(&c)
	case machine.SuspendTurn:
		return machine.Accepted, t.suspend(&c)
	case machine.RequestSteps:
		return machine.Accepted, t.request(&c)
	case machine.ResolveStep:
		return t.resolve(&c)
	case machine.RequestModel:
		return machine.Accepted, t.requestModel(&c)
	case machine.AnswerModel:
		return t.answerModel(&c)
	case machine.UpdateModelCall:
		return t.updateModelCall(&c)
	case machine.RaiseBudget:
		return machine.Accepted, t.raiseBudget(&c)
	case machine.LoseTurn:
		return t.loseTurn(&c), nil
	case machine.LoseStep:
		return t.loseStep(&c), nil
	case machine.FireTimer:
		return t.fire(&c), nil
	case machine.Pause:
		return machine.Accepted, t.pause(&c)
	case machine.Resume:
		return machine.Accepted, t.resume(&c)
	case machine.Steer:
		return machine.Accepted, t.steer(&c)
	case machine.Stop:
		return machine.Accepted, t.stop(&c)
	case machine.Cancel:
		return machine.Accepted, t.cancel()
	case machine.WriteOutput:
		return machine.Accepted, t.writeOutput(&c)
	case machine.NoteDelegation:
		return t.noteDelegation(&c)
	case machine.DecideStep:
		return t.decide(&c)
	}
	return 0, &machine.Error{Code: machine.CodeInternal, Reason: "UNKNOWN_COMMAND", Message: fmt.Sprintf("command %T", t.input.Command)}
}

// txn is one call of Step in progress. It contains a private copy of the state, and the records and
// changes that the input has made so far. The copy is shallow: a slice or turn is copied before its first
// change. The field copied says which parts were copied.
type txn struct {
	g     *machine.Graph
	old   *machine.State
	s     *machine.State
	input machine.Input
	// rules are the rules of the semantics version that the input contains.
	rules *ruleset

	records  []machine.Record
	writes   []machine.ArtifactVersion
	messages []machine.MessageRow
	cancels  []machine.OutboxRow
	outcomes []machine.StepOutcome
	effects  []machine.EffectChange
	wanted   [][32]byte
	settled  []machine.Settled
	// uncompensated are the effects of the run's tool calls that could not be undone.
	uncompensated []machine.UncompensatedEffect
	refusedErr    error
	// evaluated means that a record with the results of the evals (checks that the pack declares) was
	// already added.
	evaluated bool
	copied    copiedParts
}

// copiedParts says which parts of txn.s were copied, so that they can be changed without changing the old
// state.
type copiedParts struct{ turn, steps, artifacts, conversations bool }

// newTxn begins the application of one input. The time of the input becomes at least the time of the previous input.
// Awaiting is set to what the last turn requested; the method result later computes the final value.
func newTxn(g *machine.Graph, s *machine.State, in machine.Input) (txn, error) {
	rules, err := rulesOf(in.Semantics)
	state := *s
	state.Awaiting, state.TurnAwaiting = TurnAwaitingOf(s), machine.AwaitNothing
	in.At = max(in.At, s.At)
	return txn{g: g, old: s, s: &state, input: in, rules: rules}, err
}

// node returns the workflow state that the run is in.
func (t *txn) node() *machine.Node { return t.g.States[t.s.Current] }

// record appends one record to the batch and returns its seq.
func (t *txn) record(b machine.Body) uint64 {
	if t.records == nil {
		t.records = make([]machine.Record, 0, 2)
	}
	t.s.Seq++
	t.records = append(t.records, machine.Record{Seq: t.s.Seq, At: t.input.At, Principal: t.input.Principal, Body: b})
	return t.s.Seq
}

// evaluate adds a record with the results of the evals (checks that the pack declares) that the input
// contains. It adds this record once. It is called before the run ends, because Ended must be the last
// record, and otherwise at the end of the input.
func (t *txn) evaluate() {
	if len(t.input.Evals) > 0 && !t.evaluated {
		t.evaluated = true
		t.record(&machine.Evaluated{Results: t.input.Evals})
	}
}

// turn returns the open turn, in a copy that the caller may change.
func (t *txn) turn() *machine.Turn {
	if !t.copied.turn {
		turn := *t.s.Turn
		t.s.Turn, t.copied.turn = &turn, true
	}
	return t.s.Turn
}

// openTurn sets the open turn of the state. seq is the record that opened the turn.
func (t *txn) openTurn(seq uint64) {
	t.s.Turn, t.copied.turn = &machine.Turn{Seq: seq, Attempt: 1}, true
}

// steps returns the steps of the visit, in a copy that the caller may change.
func (t *txn) steps() []machine.ToolStep {
	if !t.copied.steps {
		t.s.Steps, t.copied.steps = slices.Clone(t.s.Steps), true
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

// countTransition counts that the run has left a state by an event and enters its target.
func (t *txn) countTransition(state, event string) {
	i := slices.IndexFunc(t.s.Edges, func(c machine.EdgeCount) bool { return c.State == state && c.Event == event })
	if i < 0 {
		t.s.Edges = append(slices.Clip(t.s.Edges), machine.EdgeCount{State: state, Event: event, N: 1})
		return
	}
	t.s.Edges = slices.Clone(t.s.Edges)
	t.s.Edges[i].N++
}

// ruleset contains the rules that differ between semantics versions.
type ruleset struct {
	// jitter returns the number that determines the random part of the pause before a further attempt.
	jitter func(run string, turnSeq uint64, attempt int) uint32
	// endNamesEvent means that the record Ended contains the event that the run did not follow, and its
	// target.
	endNamesEvent bool
	// budgetsBeforeEscalation decides how a run ends if it is over a budget and a step with the policy
	// escalate fails. If it is true, the run ends as BUDGET_EXHAUSTED, otherwise as ESCALATED.
	budgetsBeforeEscalation bool
	// costIsKnown means that a run with a cost budget refuses tokens that have neither a cost nor a
	// price.
	costIsKnown bool
	// kindIsRecorded means that the records of tool and agent steps contain the kind of the step, like
	// those of model calls.
	kindIsRecorded bool
	// silenceCosts means that the reserved maximum of a model call is counted as its usage if the usage
	// is never reported.
	silenceCosts bool
	// agentsAreLeased means that each delegation of a run with a budget gets a lease: a part of the
	// budget, including tool calls. The tool policy is sent with the delegation.
	agentsAreLeased bool
	// agentsCount means that the operator's accounts count the runs of agents in this store separately.
	agentsCount bool
	// controlDecides means that the control of a state decides whether the run waits for an input after
	// the executor of a turn has moved the run into that state.
	controlDecides bool
}

// versions contains the rules of each semantics version, indexed by the version. The entry of a released
// version never changes, because old inputs must replay in the same way.
var versions = [...]ruleset{
	machine.SemanticsFirst: {jitter: jitter},
	machine.SemanticsEnds:  {jitter: jitter, endNamesEvent: true, budgetsBeforeEscalation: true},
	machine.SemanticsModels: {
		jitter: jitter, endNamesEvent: true, budgetsBeforeEscalation: true, costIsKnown: true,
	},
	machine.SemanticsKinds: {
		jitter: jitter, endNamesEvent: true, budgetsBeforeEscalation: true, costIsKnown: true, kindIsRecorded: true,
	},
	machine.SemanticsBounds: {
		jitter: jitter, endNamesEvent: true, budgetsBeforeEscalation: true, costIsKnown: true, kindIsRecorded: true, silenceCosts: true,
	},
	machine.SemanticsLeases: {
		jitter: jitter, endNamesEvent: true, budgetsBeforeEscalation: true, costIsKnown: true, kindIsRecorded: true, silenceCosts: true,
		agentsAreLeased: true,
	},
	machine.SemanticsAccounts: {
		jitter: jitter, endNamesEvent: true, budgetsBeforeEscalation: true, costIsKnown: true, kindIsRecorded: true, silenceCosts: true,
		agentsAreLeased: true, agentsCount: true,
	},
	machine.SemanticsControl: {
		jitter: jitter, endNamesEvent: true, budgetsBeforeEscalation: true, costIsKnown: true, kindIsRecorded: true, silenceCosts: true,
		agentsAreLeased: true, agentsCount: true, controlDecides: true,
	},
}

// rulesOf returns the rules of the semantics version of an input. An unknown version means that a newer
// program wrote the input. Then it returns an error, because other rules would produce a different run.
func rulesOf(v machine.Semantics) (*ruleset, error) {
	v = max(v, machine.SemanticsFirst)
	if int(v) < len(versions) {
		return &versions[v], nil
	}
	return nil, &machine.Error{
		Code: machine.CodeDataLoss, Reason: "SEMANTICS_UNKNOWN",
		Message: fmt.Sprintf("semantics %d, this program knows 1 to %d: use a newer one", v, machine.Current),
		Limit:   int64(machine.Current), Got: int64(v),
	}
}
