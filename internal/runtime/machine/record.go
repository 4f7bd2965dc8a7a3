package machine

// Cause is the reason why a Transition happened.
type Cause uint8

const (
	CauseUnset Cause = iota
	CauseEntry
	CauseEvent
	// CauseMaxVisits means that the graph's target was refused and another state was entered instead.
	// More than one target can be refused.
	CauseMaxVisits
	CauseTimeout
)

// Record is one immutable entry of a run's history. Seq is its number. The numbers begin at 1 and have
// no gaps, and all kinds of records share them.
type Record struct {
	Seq       uint64
	At        int64
	Principal string
	Body      Body
}

// Body is the content of a Record. The type of the Body determines the kind of the record. It is one of
// the types below.
type Body interface{ record() RecordKind }

// RecordKindOf returns the kind of a body.
func RecordKindOf(b Body) RecordKind { return b.record() }

// RecordKind is the number of a kind of record. The numbers are stored, so they must never change.
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
	// Transition is one entry into a state. It opens the first turn of the visit.
	Transition struct {
		From, Event, To string
		// Intended is the target that the graph has for the event. To differs from it if a redirect
		// happened.
		Intended  string
		Redirects []Redirect
		// Visit is the number of this visit of To. Total is the number of visits of all states.
		Visit, Total int
		Cause        Cause
		// Artifacts are the writes of the event, or of the completion of the turn that contained the
		// event.
		Artifacts []ArtifactWrite
		// Uncompensated are the effects that could not be undone before the transition.
		Uncompensated []UncompensatedEffect
	}
	// InputReceived records a SendInput. Queued means that the input waits for the next turn.
	InputReceived struct {
		Parts     []Part
		MessageID string
		Queued    bool
		Envelope  *Envelope
		// Step is the delegation whose agent receives the parts. If it is 0, the next turn receives
		// them.
		Step uint32
		// Scopes are the scopes of the caller that sent the parts to the agent, at that time. They are
		// empty if Step is 0.
		Scopes []string
	}
	// TurnOpened opens a further turn of the same visit. The seq of this record is the number of the turn.
	TurnOpened struct {
		State string
		// Inputs are the seqs of the InputReceived and Steered records that are the input of the turn.
		Inputs []uint64
	}
	// TurnAssigned records a delivery of a turn. It is stored together with the next record of the turn.
	TurnAssigned struct {
		TurnSeq  uint64
		Attempt  int
		Assigned Assignment
	}
	// TurnCompleted records that a turn was executed successfully and has ended.
	TurnCompleted struct {
		TurnSeq  uint64
		Attempt  int
		Output   []Part
		Messages []Message
		Usage    Usage
		Event    string
		// Artifacts are the writes of the completion. They are set only if the visit continues.
		// Otherwise the Transition or Ended record of the same input contains them, so that each write
		// is stored once.
		Artifacts []ArtifactWrite
		Await     Awaiting
		Reply     bool
		// ConversationThrough is a MODEL step. The messages of the turn up to this step are added to
		// the conversation.
		ConversationThrough StepRef
	}
	// TurnFailed records a failed attempt. Next is the number of the attempt that follows. It is 0 if
	// none follows.
	TurnFailed struct {
		TurnSeq   uint64
		Attempt   int
		Error     Fault
		Retryable bool
		Next      int
		// NotBefore is the earliest time at which the attempt Next may start, in Unix nanoseconds.
		NotBefore int64
		Usage     Usage
		// Rejected is the MODEL step whose answer was rejected. It is 0 if no answer was rejected.
		Rejected uint32
		// Violation is the validator of the pack for which the attempt failed; nil = it failed for another reason.
		Violation *Violation
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
		// Pending are the steps that the turn waits for.
		Pending []uint32
	}
	// TurnReady records that a turn is offered again, because all the steps that it waited for are
	// answered or its backoff has ended.
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
		// Deadline is the deadline of the step, in Unix nanoseconds.
		Deadline   int64
		Delegation bool
		// Kind is the kind of the step. Model is the model request. It is nil if an attempt repeats the
		// request of the previous attempt.
		Kind  StepKind
		Model *ModelRequest
		Bound Usage
		// Changed means that an earlier attempt of this MODEL step made a different request.
		Changed bool
		Call    *CallRef
		// Hold means that the step waits for a decision until Deadline. Hold is nil if the step does
		// not wait.
		Hold *ApprovalHold
		// About identifies the other step that this step refers to, if the sidecar itself requested
		// this step. It is nil if a turn requested the step.
		About *About
		// Policy restricts the tools that the agent's run may call. It is sent with a delegation. If it
		// is nil, there is no restriction.
		Policy *ToolPolicy
		// ByCaller means that the requesting caller makes the call itself, see [StepRequest].
		ByCaller bool
		// Local means that the delegation is sent to an agent of this store, even if the operator's
		// configuration changes later. In this case the agent's run is counted separately in the
		// accounts of this run.
		Local bool
	}
	// StepResolved records an accepted answer to a step. If Next is greater than 0, the attempt failed,
	// and the same step is issued again as attempt Next with the deadline Deadline.
	StepResolved struct {
		Step    uint32
		Tool    string
		Attempt int
		OK      bool
		Result  []byte
		Error   Fault
		// Unknown means that the tool may have been called.
		Unknown   bool
		Next      int
		Deadline  int64
		Worker    string
		Artifacts []ArtifactWrite
		// Usage is the usage of the attempt of a delegation or a model call. This record adds it to the
		// usage of the run.
		Usage Usage
		Kind  StepKind
		// Answer is the answer of a MODEL step with the status OK.
		Answer *ModelAnswer
		// NotBefore is the earliest time at which the attempt Next may begin, in Unix nanoseconds. 0
		// means immediately.
		NotBefore int64
	}
	// StepRejected records a refused request. The request got no step number.
	StepRejected struct {
		Key     string
		Tool    string
		TurnSeq uint64
		Denial  Denial
		Kind    StepKind
	}
	// StepCancelled records that a step was cancelled because the visit was left or the run ended before the answer.
	StepCancelled struct {
		Step uint32
		Tool string
		Why  string
		Kind StepKind
		// Usage is the amount that is counted as consumed, because no later report can be expected. It
		// is zero for model calls, and for calls that were never sent.
		Usage Usage
	}
	// OutputWritten is a piece of the output of an open turn.
	OutputWritten struct {
		TurnSeq uint64
		Attempt int
		Piece   OutputPiece
	}
	// StepDelegated records a change of an active delegation.
	StepDelegated struct {
		Step     uint32
		Tool     string
		Attempt  int
		Remote   Remote
		Question []Part
	}
	// NoChange records an input that has an id but made no change. The record keeps the id, so that a
	// late repeat receives the same answer and has no effect.
	NoChange struct {
		Command CommandKind
		ID      string
	}
	// ArtifactsSet records writes of artifacts without a transition.
	ArtifactsSet struct{ Artifacts []ArtifactWrite }
	// Paused records that the run was paused. After that, no further work is sent.
	Paused struct{ Note string }
	// Resumed records that the pause ended.
	Resumed struct{ Note string }
	// Origin is the first record of a forked run. It represents all copied data: the open visit, its turn and answered steps, artifacts and
	// messages.
	Origin struct {
		RunID string
		// Seq is the requested record of the source.
		Seq uint64
		// State is the state of the source after the commit that contains the record Seq.
		State *State
		// Artifacts are the values that the artifacts have at the start of the fork.
		Artifacts     []ArtifactWrite
		Conversations []ConversationCopy
		// Steps are the requests and answers of the copied steps.
		Steps []TakenStep
	}
	// Ended is the last record of a run. Only records of late usage of model calls can follow it.
	Ended struct {
		Status Status
		Reason string
		// Event is the event that was not followed because of the bound in Reason. Intended is the
		// target state of this event. Both are "" if the run ended for another reason.
		Event, Intended string
		// Redirects are the states that were refused. They are set if no state could be entered.
		Redirects []Redirect
		// Artifacts are the writes of the input that ended the run without a Transition.
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

// Redirect is a target that was refused, and the guard that refused it, for example
// "max_visits:implement" or "max_iterations:review.ChangesNeeded".
type Redirect struct{ State, Guard string }
