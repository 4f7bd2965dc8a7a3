package runtime

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/conversation"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/render"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// Answer is what became of an input. It is read-only: its state and records
// are shared with the engine.
type Answer struct {
	RunID string
	// State of the run after the input.
	State *machine.State
	// Entry is the commit that the input made, or the one of the equal input before
	// it; without records if it changed nothing.
	Entry machine.Entry
	// Turn is the open turn after the input; nil if there is none.
	Turn *TurnRef
	// Duplicate: the id was used before; this is the first answer again.
	Duplicate   bool
	Disposition machine.Disposition
	// Steps answer RequestSteps, in order.
	Steps []StepAnswer
	// IncludedMessages are what a request to a model contains because it has to.
	IncludedMessages []conversation.IncludedMessage
	// Graph is the control flow of the run; nil as State is.
	Graph *machine.Graph
	// Final are the artifacts of a run that Entry ended, in the order of their names;
	// nil for whoever may not read runs.
	Final []ArtifactValue
}

// Ended reports whether the input, or the equal one before it, ended the run.
func (a *Answer) Ended() bool {
	return slices.ContainsFunc(a.Entry.Records, func(r machine.Record) bool { return machine.RecordKindOf(r.Body) == machine.RecEnded })
}

// concluded puts the final artifacts into an answer. It is called when the run's turn
// is over: nothing of a run that has ended changes any more.
func (e *Engine) concluded(ctx context.Context, ns uint32, who *Principal, answer Answer, err error) (Answer, error) {
	if err != nil || answer.State == nil || !answer.Ended() || !who.Scopes.Any(ScopeRunsRead|ScopeRunsWrite) {
		return answer, err
	}
	key := RunKey{Namespace: ns, ID: answer.RunID}
	answer.Final, err = e.past.Artifacts(ctx, key, answer.State, answer.State.Seq)
	return answer, err
}

// TurnRef is the identity of an open turn.
type TurnRef = render.TurnRef

// StepAnswer is one step as its turn sees it.
type StepAnswer = history.StepAnswer

// ArtifactValue is one artifact with its accumulated value.
type ArtifactValue = history.Artifact

// RunView is a run as it is told at one seq. Read only.
type RunView = render.View

// Cursor is a place in the journal of a namespace; it orders what the store has committed.
type Cursor = validate.Cursor

// RecordRow is one record as a watch tells it.
type RecordRow = render.Row
