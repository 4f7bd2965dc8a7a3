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

// RecordKindOf returns the kind of a body.
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
		// Intended is the target of the event in the graph; it differs from To after a redirect.
		Intended  string
		Redirects []Redirect
		// Visit is the number of this visit of To; Total the number of visits of all states.
		Visit, Total int
		Cause        Cause
		// Artifacts are those of the event, or of the completion that carried it.
		Artifacts []ArtifactWrite
		// Uncompensated are the effects that could not be undone before the transition.
		Uncompensated []UncompensatedEffect
	}
	// InputReceived records SendInput. Queued means that it waits for the next turn.
	InputReceived struct {
		Parts     []Part
		MessageID string
		Queued    bool
		Envelope  *Envelope
		// Step is the delegation that gets the parts; 0 = the turn.
		Step uint32
		// Scopes are those of the record's principal when it answered; empty without Step.
		Scopes []string
	}
	// TurnOpened opens a further turn of the same visit; its seq is the turn's.
	TurnOpened struct {
		State string
		// Inputs are the seqs of the InputReceived and Steered records that it answers.
		Inputs []uint64
	}
	// TurnAssigned records a delivery of a turn, together with the turn's next record.
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
		// Artifacts are set only if the visit goes on. A write is stored once: with the Transition or Ended
		// of the same input, if there is one.
		Artifacts []ArtifactWrite
		Await     Awaiting
		Reply     bool
		// ConversationThrough is the MODEL step up to which the messages of the turn join the conversation.
		ConversationThrough StepRef
	}
	// TurnFailed records a failed attempt. Next is the attempt that follows, 0 = none.
	TurnFailed struct {
		TurnSeq   uint64
		Attempt   int
		Error     Fault
		Retryable bool
		Next      int
		// NotBefore is when Next may start, Unix nanoseconds.
		NotBefore int64
		Usage     Usage
		// Rejected is the MODEL step with the rejected answer; 0 = none.
		Rejected uint32
	}
	// TurnAbandoned records that the visit was left while the turn was open.
	TurnAbandoned struct {
		TurnSeq uint64
		Attempt int
		Why     string
	}
	// TurnSuspended records that the turn was released until its steps are answered.
	TurnSuspended struct {
		TurnSeq uint64
		Attempt int
		// Pending are the steps that it waits for.
		Pending []uint32
	}
	// TurnReady records that a turn is offered again: its steps are all answered, or its backoff is over.
	TurnReady struct {
		TurnSeq uint64
		Attempt int
	}
	// StepRequested records a step with its number.
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
		// Kind is the kind of the step. Model is nil if an attempt repeats the request of the attempt before.
		Kind  StepKind
		Model *ModelRequest
		Bound Usage
		// Changed means that an earlier attempt of this MODEL step made a different request.
		Changed bool
		Call    *CallRef
		// Hold means that the step waits for a decision until Deadline; nil = it does not.
		Hold *ApprovalHold
		// About makes it a step of the sidecar's own; nil = a turn requested it.
		About *About
		// Policy is sent with a delegation: the tools that the agent's run may call; nil = no list.
		Policy *ToolPolicy
		// ByCaller means that the requesting caller makes the call itself; see [StepRequest].
		ByCaller bool
		// Local means that the delegation goes to an agent of this store, even if the operator's
		// configuration changes later, and that the agent's run is counted separately in the accounts of this
		// one.
		Local bool
	}
	// StepResolved is an accepted answer. Next > 0 means that the attempt failed and the same step is issued
	// again with that attempt, due by Deadline.
	StepResolved struct {
		Step    uint32
		Tool    string
		Attempt int
		OK      bool
		Result  []byte
		Error   Fault
		// Unknown means that the tool may have run.
		Unknown   bool
		Next      int
		Deadline  int64
		Worker    string
		Artifacts []ArtifactWrite
		// Usage is that of the attempt, settled into the run with this record (delegations, models).
		Usage Usage
		Kind  StepKind
		// Answer is that of a MODEL step that is OK.
		Answer *ModelAnswer
		// NotBefore is when Next may begin, Unix nanoseconds; 0 = at once.
		NotBefore int64
	}
	// StepRejected records a refused request; it never got a number.
	StepRejected struct {
		Key     string
		Tool    string
		TurnSeq uint64
		Denial  Denial
		Kind    StepKind
	}
	// StepCancelled records that the visit was left or the run ended before the answer.
	StepCancelled struct {
		Step uint32
		Tool string
		Why  string
		Kind StepKind
		// Usage is the amount counted as consumed, because no report will come; zero for calls that were not
		// handed out, and for model calls.
		Usage Usage
	}
	// OutputWritten is a piece of the output of an open turn.
	OutputWritten struct {
		TurnSeq uint64
		Attempt int
		Piece   OutputPiece
	}
	// StepDelegated records a change of a delegation under way.
	StepDelegated struct {
		Step     uint32
		Tool     string
		Attempt  int
		Remote   Remote
		Question []Part
	}
	// NoChange records an input with an id that was answered and made no other change. It keeps the id, so
	// that a late repeat gets the same answer and has no effect.
	NoChange struct {
		Command CommandKind
		ID      string
	}
	// ArtifactsSet is a write without a transition.
	ArtifactsSet struct{ Artifacts []ArtifactWrite }
	// Paused records that no more work is handed out.
	Paused struct{ Note string }
	// Resumed ends the pause.
	Resumed struct{ Note string }
	// Origin is seq 1 of a forked run. It represents everything that was copied: the open visit, its turn and
	// answered steps, artifacts and messages.
	Origin struct {
		RunID string
		// Seq is the requested record of the source.
		Seq uint64
		// State is the source's state after the commit that holds the record.
		State *State
		// Artifacts are the values at the start of the fork.
		Artifacts     []ArtifactWrite
		Conversations []ConversationCopy
		// Steps are the bodies of the answered steps that were copied.
		Steps []TakenStep
	}
	// Ended is the last record of a run, except for usage of model calls that is reported later.
	Ended struct {
		Status Status
		Reason string
		// Event was requested and not followed because of the bound that Reason names; Intended is its target
		// state. "" = the run ended for another reason.
		Event, Intended string
		// Redirects are the refused states if no state could be entered.
		Redirects []Redirect
		// Artifacts were written by the input that ended the run without a Transition.
		Artifacts []ArtifactWrite
		// Uncompensated are the effects that could not be undone before the end.
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
