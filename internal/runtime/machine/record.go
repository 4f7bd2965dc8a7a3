package machine

// Cause is why a Transition happened.
type Cause uint8

const (
	CauseUnset Cause = iota
	CauseEntry
	CauseEvent
	// CauseMaxVisits: at least one target was refused on the way.
	CauseMaxVisits
	CauseTimeout
)

// Record is one immutable entry of a run's history. Seq is dense from 1 over
// all kinds.
type Record struct {
	Seq       uint64
	At        int64
	Principal string
	Body      Body
}

// Body is the kind of a Record and its fields; one of the types below.
type Body interface{ record() RecordKind }

// RecordKindOf names a body's kind.
func RecordKindOf(b Body) RecordKind { return b.record() }

// RecordKind numbers the kinds; the numbers are stored, never renumber.
type RecordKind uint8

const (
	RecTransition RecordKind = iota + 1
	RecInputReceived
	RecTurnOpened
	RecTurnAssigned
	RecTurnCompleted
	RecTurnFailed
	RecTurnAbandoned
	RecTurnSuspended
	RecStepRequested
	RecStepResolved
	RecStepRejected
	RecStepCancelled
	RecArtifactsSet
	RecPaused
	RecResumed
	RecOrigin
	RecEnded
	RecTurnReady
)

// Records of agents are numbered from 30.
const (
	RecOutputWritten RecordKind = iota + 30
	RecStepDelegated
	RecNoChange
)

type (
	// Transition is one entry into a state; it opens the visit's first turn.
	Transition struct {
		From, Event, To string
		// Intended is the target that the event names; differs from To after a redirect.
		Intended  string
		Redirects []Redirect
		// Visit is the number of this visit of To; Total of all states.
		Visit, Total int
		Cause        Cause
		// Artifacts of the event, or of the completion that carried it.
		Artifacts []ArtifactWrite
		// Uncompensated are the effects that could not be undone before.
		Uncompensated []UncompensatedEffect
	}
	// InputReceived is SendInput. Queued: held for the next turn.
	InputReceived struct {
		Parts     []Part
		MessageID string
		Queued    bool
		Envelope  *Envelope
		// Step is the delegation that gets the parts; 0 = the turn.
		Step uint32
		// Scopes of the record's principal when it answered; empty without Step.
		Scopes []string
	}
	// TurnOpened opens a further turn of the same visit; its seq is the turn's.
	TurnOpened struct {
		State string
		// Inputs are the seqs of the InputReceived and Steered records that it answers.
		Inputs []uint64
	}
	// TurnAssigned is recorded with the turn's next record.
	TurnAssigned struct {
		TurnSeq  uint64
		Attempt  int
		Assigned Assignment
	}
	// TurnCompleted is the end of a turn that was executed.
	TurnCompleted struct {
		TurnSeq  uint64
		Attempt  int
		Output   []Part
		Messages []Message
		Usage    Usage
		Event    string
		// Artifacts only where the visit goes on: a write is stored once, with the
		// Transition or Ended of the same input if there is one.
		Artifacts []ArtifactWrite
		Await     Awaiting
		Reply     bool
		// ConversationThrough names the MODEL step up to which the turn's words join the conversation.
		ConversationThrough StepRef
	}
	// TurnFailed: Next is the attempt that follows, 0 = none.
	TurnFailed struct {
		TurnSeq   uint64
		Attempt   int
		Error     Fault
		Retryable bool
		Next      int
		// NotBefore is when Next may start, Unix nanoseconds.
		NotBefore int64
		Usage     Usage
		// Rejected is the MODEL step whose answer was rejected; 0 = none.
		Rejected uint32
	}
	// TurnAbandoned: the visit was left while the turn was open.
	TurnAbandoned struct {
		TurnSeq uint64
		Attempt int
		Why     string
	}
	// TurnSuspended: the turn was released until its steps are answered.
	TurnSuspended struct {
		TurnSeq uint64
		Attempt int
		// Pending are the steps that it waits for.
		Pending []uint32
	}
	// TurnReady: a suspended turn whose steps are all answered, or a turn whose
	// backoff is over, is offered again.
	TurnReady struct {
		TurnSeq uint64
		Attempt int
	}
	// StepRequested is a step that got its number.
	StepRequested struct {
		Step    uint32
		Key     string
		Tool    string
		TurnSeq uint64
		Attempt int
		Payload []byte
		Reframe bool
		// Deadline is Unix nanoseconds.
		Deadline   int64
		Delegation bool
		// Kind of the step; Model is nil where an attempt asks what the one before did.
		Kind  StepKind
		Model *ModelRequest
		Bound Usage
		// Changed: an earlier attempt of this MODEL step asked something else.
		Changed bool
		Call    *CallRef
		// Hold: it waits for a decision until Deadline; nil = it does not.
		Hold *ApprovalHold
		// About makes it a step of the sidecar's own; nil: a turn asked for it.
		About *About
		// Policy goes with a delegation: what the agent's run may call at most; nil = no list.
		Policy *ToolPolicy
		// ByCaller: the caller that asked for it makes it; see [StepRequest].
		ByCaller bool
		// Local: the delegation goes to an agent of this store, whatever the operator says of
		// agents later, and the agent's run counts itself in the accounts of this one.
		Local bool
	}
	// StepResolved is an accepted answer; Next > 0: the attempt failed and the
	// same step is issued again with that attempt, due by Deadline.
	StepResolved struct {
		Step    uint32
		Tool    string
		Attempt int
		OK      bool
		Result  []byte
		Error   Fault
		// Unknown: nobody knows whether the tool ran.
		Unknown   bool
		Next      int
		Deadline  int64
		Worker    string
		Artifacts []ArtifactWrite
		// Usage of the attempt, settled into the run with this record (delegations, models).
		Usage Usage
		Kind  StepKind
		// Answer of a MODEL step that is OK.
		Answer *ModelAnswer
		// NotBefore is when Next may begin, Unix nanoseconds; 0 = at once.
		NotBefore int64
	}
	// StepRejected never got a number.
	StepRejected struct {
		Key     string
		Tool    string
		TurnSeq uint64
		Denial  Denial
		Kind    StepKind
	}
	// StepCancelled: the visit was left or the run ended before the answer.
	StepCancelled struct {
		Step uint32
		Tool string
		Why  string
		Kind StepKind
		// Usage is what is taken for consumed, since nobody will tell; zero of what never
		// went out, and of calls of models.
		Usage Usage
	}
	// OutputWritten is a piece of the output of a turn that is open.
	OutputWritten struct {
		TurnSeq uint64
		Attempt int
		Piece   OutputPiece
	}
	// StepDelegated is news of a delegation that is under way.
	StepDelegated struct {
		Step     uint32
		Tool     string
		Attempt  int
		Remote   Remote
		Question []Part
	}
	// NoChange is an input with an id that was answered and changed nothing else. It
	// keeps the id, so that a late repeat gets the same answer and has no effect.
	NoChange struct {
		Command CommandKind
		ID      string
	}
	// ArtifactsSet is a write without a transition.
	ArtifactsSet struct{ Artifacts []ArtifactWrite }
	// Paused: nothing is handed out any more.
	Paused struct{ Note string }
	// Resumed ends the pause.
	Resumed struct{ Note string }
	// Origin is seq 1 of a forked run. It stands for everything that was copied:
	// the visit under way, its turn and answered steps, artifacts and messages.
	Origin struct {
		RunID string
		// Seq is the source's record that was asked for.
		Seq uint64
		// State is the source's after the commit that holds the record.
		State *State
		// Artifacts are the values that the fork begins with.
		Artifacts     []ArtifactWrite
		Conversations []ConversationCopy
		// Steps are the bodies of the answered steps that were taken over.
		Steps []TakenStep
	}
	// Ended is the last record of a run, but for what calls of models consumed that are told
	// of later.
	Ended struct {
		Status Status
		Reason string
		// Event was asked for and is lost to the bound that Reason names, and Intended
		// the state that it leads to; "" = the run ended by something else.
		Event, Intended string
		// Redirects are the refused states when nothing could be entered.
		Redirects []Redirect
		// Artifacts written by the input that ended the run without a Transition.
		Artifacts []ArtifactWrite
		// Uncompensated are the effects that could not be undone before.
		Uncompensated []UncompensatedEffect
	}
)

func (*Transition) record() RecordKind    { return RecTransition }
func (*InputReceived) record() RecordKind { return RecInputReceived }
func (*TurnOpened) record() RecordKind    { return RecTurnOpened }
func (*TurnAssigned) record() RecordKind  { return RecTurnAssigned }
func (*TurnCompleted) record() RecordKind { return RecTurnCompleted }
func (*TurnFailed) record() RecordKind    { return RecTurnFailed }
func (*TurnAbandoned) record() RecordKind { return RecTurnAbandoned }
func (*TurnSuspended) record() RecordKind { return RecTurnSuspended }
func (*TurnReady) record() RecordKind     { return RecTurnReady }
func (*StepRequested) record() RecordKind { return RecStepRequested }
func (*StepResolved) record() RecordKind  { return RecStepResolved }
func (*StepRejected) record() RecordKind  { return RecStepRejected }
func (*StepCancelled) record() RecordKind { return RecStepCancelled }
func (*ArtifactsSet) record() RecordKind  { return RecArtifactsSet }
func (*Paused) record() RecordKind        { return RecPaused }
func (*Resumed) record() RecordKind       { return RecResumed }
func (*Origin) record() RecordKind        { return RecOrigin }
func (*Ended) record() RecordKind         { return RecEnded }
func (*OutputWritten) record() RecordKind { return RecOutputWritten }
func (*StepDelegated) record() RecordKind { return RecStepDelegated }
func (*NoChange) record() RecordKind      { return RecNoChange }

// Redirect is a refused target and the guard that refused it
// ("max_visits:implement", "max_iterations:review.ChangesNeeded").
type Redirect struct{ State, Guard string }
