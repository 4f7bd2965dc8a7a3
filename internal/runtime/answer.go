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

// Answer is the result of an input. It is read-only: its state and records are shared with the engine.
type Answer struct {
	RunID string
	// State is the state of the run after the input.
	State *machine.State
	// Entry is the commit that the input made. If the input repeats an earlier one, Entry is the commit of the earlier input. Entry has no
	// records if the input made no change.
	Entry machine.Entry
	// Turn is the open turn after the input; nil if no turn is open.
	Turn *TurnRef
	// Duplicate reports whether an earlier input had the same id. Then the Answer is the recorded answer to that earlier input.
	Duplicate   bool
	Disposition machine.Disposition
	// Steps are the outcomes of the requests of RequestSteps, in their order.
	Steps []StepAnswer
	// IncludedMessages are the required messages that the sidecar added to a request to a model because the caller did not send them.
	IncludedMessages []conversation.IncludedMessage
	// Graph is the control flow of the run. It is nil if State is nil.
	Graph *machine.Graph
	// Final are the final artifacts of a run that Entry ended, sorted by name. It is nil for a caller that
	// may not read runs.
	Final []ArtifactValue
}

// Ended reports whether this input, or the earlier input that it repeats, ended the run.
func (a *Answer) Ended() bool {
	return slices.ContainsFunc(a.Entry.Records, func(r machine.Record) bool { return machine.RecordKindOf(r.Body) == machine.RecEnded })
}

// concluded adds the final artifacts to an answer if its input ended the run. It is called after the
// run's execution slot is released. This is safe, because a run that has ended does not change any more.
func (e *Engine) concluded(ctx context.Context, ns uint32, by *Principal, answer Answer, err error) (Answer, error) {
	if err != nil || answer.State == nil || !answer.Ended() || !by.Scopes.Any(ScopeRunsRead|ScopeRunsWrite) {
		return answer, err
	}
	key := RunKey{Namespace: ns, ID: answer.RunID}
	answer.Final, err = e.past.Artifacts(ctx, key, answer.State, answer.State.Seq)
	return answer, err
}

// TurnRef is the identity of an open turn.
type TurnRef = render.TurnRef

// StepAnswer is one step with its recorded answer, as the executor of the turn receives it.
type StepAnswer = history.StepAnswer

// ArtifactValue is one artifact with its accumulated value.
type ArtifactValue = history.Artifact

// RunView is the state of a run at one seq. It is read-only.
type RunView = render.View

// Cursor is a position in the journal of a namespace. A later commit has a greater cursor.
type Cursor = validate.Cursor

// RecordRow is one record in the form in which a watch delivers it.
type RecordRow = render.Row
