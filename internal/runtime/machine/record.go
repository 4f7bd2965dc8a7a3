package machine

// Cause is the reason why a Transition happened.
type Cause uint8

const (
	CauseUnset Cause = iota
	CauseEntry
	CauseEvent
	// CauseMaxVisits means that the run entered another state than the target of the event, because a guard refused the
	// target, for example max_visits. Several targets in a row can be refused.
	CauseMaxVisits
	CauseTimeout
)

// Record is one immutable entry of a run's history. Seq is its number. The numbers of a run begin at 1 and have no
// gaps.
type Record struct {
	Seq       uint64
	At        int64
	Principal string
	Body      Body
}

// Body is the content of a Record: a pointer to one of the types below. Its type determines the kind of the record.
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

// These are kinds of records with the numbers from 30. Other files define the kinds with other numbers.
const (
	RecOutputWritten RecordKind = iota + 30
	RecStepDelegated
	RecNoChange
)

type (
	// Transition is one entry into a state. It opens the first turn of the visit, except if AwaitsInput
	// is set.
	Transition struct {
		From, Event, To string
		// Intended is the target of the event in the graph. It differs from To if the target was refused and another
		// state was entered.
		Intended  string
		Redirects []Redirect
		// Visit is the number of this visit among the visits of the state To. Total is the number of visits of all states
		// together.
		Visit, Total int
		Cause        Cause
		// Artifacts are the values that the event, or the completion of the turn, wrote.
		Artifacts []ArtifactWrite
		// Uncompensated are the effects of tool calls that could not be undone before the transition.
		Uncompensated []UncompensatedEffect
		// AwaitsInput means that the run waits for an input instead of opening a turn, because the control of the state To
		// requires it (RFC 0014).
		AwaitsInput bool
		// Conversation means that the run is a conversation. It is set only in the first record of the
		// run.
		Conversation bool
	}
	// InputReceived records a SendInput. Queued means that a turn was open, so that the input waits for the next turn.
	InputReceived struct {
		Parts     []Part
		MessageID string
		Queued    bool
		Envelope  *Envelope
		// Step is the number of a delegation. The parts answer a question that its agent asked. If Step is 0, the next turn
		// receives the parts.
		Step uint32
		// Scopes are the scopes that the sender had when it answered the agent's question. They are empty if Step is 0.
		Scopes []string
	}
	// TurnOpened opens a further turn of the same visit. The seq of this record is the number of the turn.
	TurnOpened struct {
		State string
		// Inputs are the seqs of the InputReceived and Steered records that are the input of the turn.
		Inputs []uint64
	}
	// TurnAssigned records that a turn was delivered to a worker. It is stored together with the next record of the
	// turn.
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
		// Artifacts are the values that the completion wrote. They are set only if the run stays in its state.
		// Otherwise the Transition, Ended or CompensationStarted record of the same input contains them, so that each value
		// is stored once.
		Artifacts []ArtifactWrite
		Await     Awaiting
		Reply     bool
		// ConversationThrough is a MODEL step of the turn. The turn's messages up to this step are added to the
		// conversation. It is zero if there is none.
		ConversationThrough StepRef
	}
	// TurnFailed records a failed attempt of a turn. Next is the number of the next attempt. It is 0 if no attempt
	// follows.
	TurnFailed struct {
		TurnSeq   uint64
		Attempt   int
		Error     Fault
		Retryable bool
		Next      int
		// NotBefore is the earliest time at which the attempt Next may start, in Unix nanoseconds.
		NotBefore int64
		Usage     Usage
		// Rejected is the MODEL step whose answer was rejected, by the executor or because of a validator or of max_rounds.
		// It is 0 if no answer was rejected.
		Rejected uint32
		// Violation is the validator of the pack that the attempt violated. It is nil if the attempt failed for another
		// reason.
		Violation *Violation
	}
	// TurnAbandoned records that the run left its state, or undid its effects, while the turn was open. Why is the
	// reason, for example "outside_event".
	TurnAbandoned struct {
		TurnSeq uint64
		Attempt int
		Why     string
	}
	// TurnSuspended records that the turn was released until its steps are answered.
	TurnSuspended struct {
		TurnSeq uint64
		Attempt int
		// Pending are the numbers of the steps that the turn waits for.
		Pending []uint32
	}
	// TurnReady records that a turn can be executed again, because all steps that it waited for are answered or the
	// pause after a failed attempt has ended.
	TurnReady struct {
		TurnSeq uint64
		Attempt int
	}
	// StepRequested records a requested step, or a new attempt of a model call.
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
		// Kind is the kind of the step. Model is the model request of a MODEL step. It is nil if the attempt repeats
		// the request of the previous attempt.
		Kind  StepKind
		Model *ModelRequest
		Bound Usage
		// Changed means that an earlier attempt of this MODEL step made a different request.
		Changed bool
		Call    *CallRef
		// Hold means that the call waits for approval until Deadline. It is nil if the call needs no approval.
		Hold *ApprovalHold
		// About identifies the step that this step asks about or compensates, if the sidecar itself requested this step. It
		// is nil if a turn requested this step.
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
		// Repeatable means that an attempt with an unknown outcome is followed by another one, although the pack does not say so, see
		// [StepRequest].
		Repeatable bool
	}
	// StepResolved records an accepted answer to a step. If Next is greater than 0, the attempt failed, and the next
	// attempt has the number Next and the deadline Deadline.
	StepResolved struct {
		Step    uint32
		Tool    string
		Attempt int
		OK      bool
		Result  []byte
		Error   Fault
		// Unknown means that the outcome of the attempt is unknown: the tool may have been called.
		Unknown   bool
		Next      int
		Deadline  int64
		Worker    string
		Artifacts []ArtifactWrite
		// Usage is what the attempt of a call of a tool, an agent or a model has consumed. This record adds it to the usage
		// of the run.
		Usage Usage
		Kind  StepKind
		// Answer is the answer of a MODEL step with the status OK.
		Answer *ModelAnswer
		// NotBefore is the earliest time at which the attempt Next may begin, in Unix nanoseconds. 0
		// means immediately.
		NotBefore int64
	}
	// StepRejected records that a requested step was refused. A refused step gets no number.
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
		// Usage is the reserved maximum, which is counted as consumed because no later report can be expected. It is
		// zero for model calls, and for calls that were never sent.
		Usage Usage
	}
	// OutputWritten is a piece of the output of an open turn.
	OutputWritten struct {
		TurnSeq uint64
		Attempt int
		Piece   OutputPiece
	}
	// StepDelegated records a change of the known state of an agent's task.
	StepDelegated struct {
		Step     uint32
		Tool     string
		Attempt  int
		Remote   Remote
		Question []Part
	}
	// NoChange records an input that has an id but made no change. The record keeps the id, so that a late repeat gets
	// the same answer and has no effect.
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
	// Origin is the first record of a forked run. It contains all copied data: the open visit with its turn and
	// answered steps, artifacts and messages.
	Origin struct {
		RunID string
		// Seq is the record of the source run at which the caller forked it.
		Seq uint64
		// State is the state of the source run after the commit that contains the record Seq.
		State *State
		// Artifacts are the values that the artifacts have at the start of the fork.
		Artifacts     []ArtifactWrite
		Conversations []ConversationCopy
		// Steps are the requests and answers of the copied steps.
		Steps []TakenStep
	}
	// Ended is the last record of a run, except for ModelUpdated records with usage that was reported late.
	Ended struct {
		Status Status
		Reason string
		// Event is the event that the run did not follow, because of the bound in Reason. Intended is the target state
		// of the event. Both are "" if the run ended for another reason.
		Event, Intended string
		// Redirects are the states that were refused one after the other. They are set if the run ended because it
		// could enter no state.
		Redirects []Redirect
		// Artifacts are the values that the last input wrote. They are set if no other record of the same input
		// contains them.
		Artifacts []ArtifactWrite
		// Uncompensated are the effects of tool calls that could not be undone before the end.
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

// Redirect is a state that the run could not enter, and the guard that refused it, for example "max_visits:implement"
// or "max_iterations:review.ChangesNeeded".
type Redirect struct{ State, Guard string }

// RecEvaluated is the record kind of [Evaluated], which contains the results of evals (checks that the pack declares).
const RecEvaluated RecordKind = 42

type (
	// Evaluated records the results of the evals (checks that the pack declares) that an input made due. It follows the
	// records that the evals judge, in the same commit, and precedes Ended.
	Evaluated struct {
		Results []EvalResult
	}
	// EvalResult is the result of one eval: a check of a turn, a visit or a run that the pack declares.
	EvalResult struct {
		ID, Type string
		// Prompt is the prompt that declares the eval. It is "" if the pack declares it.
		Prompt  string
		Trigger string
		// TurnSeq is the seq of the turn that the eval judges. It is 0 if the eval judges a visit or the whole run.
		TurnSeq uint64
		// VisitSeq is the seq of the Transition that began the visit that the eval judges. It is 0 if the eval judges a
		// turn or the whole run.
		VisitSeq uint64
		// Score is the result of the eval in millionths, from 0 to [ScoreFull].
		Score int64
		// Threshold is the condition that the pack declares for the score, for example "gte 0.8". If it is "", only a
		// full score passes.
		Threshold string
		// Passed means that the score passes the threshold. It is false if Error is set.
		Passed bool
		// Explanation says why the score is less than 1. If the eval did not pass, it begins with the pack's message. It is "" if the score
		// is 1.
		Explanation string
		// Error says why the eval has no score. It is "" if the eval has a score.
		Error  string
		Groups []string
		// Metric is the metric in which the result is exported. It is nil if the eval declares none.
		Metric *EvalMetric
	}
	// EvalMetric is the metric that an eval declares.
	EvalMetric struct {
		Name string
		// Kind is gauge, counter, histogram or boolean.
		Kind string
		// Ranged means that the metric declares a range. Min and Max are its bounds in millionths.
		Ranged   bool
		Min, Max int64
	}
)

// ReservedMetrics are the prefixes of the names of the sidecar's own metrics. A pack's metric is not exported if its
// name has one of these prefixes.
var ReservedMetrics = []string{"pawl_", "go_", "process_", "promhttp_"}

// ScoreFull is the score of a full pass.
const ScoreFull = 1_000_000

func (*Evaluated) record() RecordKind { return RecEvaluated }

// UsageOf returns the usage that a record adds to the tokens, the cost and the tool calls of its run.
func UsageOf(b Body) Usage {
	switch b := b.(type) {
	case *TurnCompleted:
		return b.Usage
	case *TurnFailed:
		return b.Usage
	case *StepResolved:
		return b.Usage
	case *StepCancelled:
		return b.Usage
	case *ModelUpdated:
		return b.Usage
	}
	return Usage{}
}
