package machine

import (
	"time"
)

// Commands of time travel are numbered from 20 to 29, apart from the commands that move a run.
const CmdFork CommandKind = 20

type (
	// Fork begins a run as a copy of another at one of its records (semantics §12); State must be nil. It
	// contains everything that is copied, so that the new run is independent: its source is never read again.
	Fork struct {
		Namespace uint32
		RunID     string
		// EntryOverride and Execution are those of the new run.
		EntryOverride bool
		Execution     Execution
		// Variables is one compact JSON object: the source's variables with the changes.
		Variables []byte
		Labels    []Label
		Limits    Limits
		// MaxWallTime and MaxSteps lower the pack's bounds; 0 = the pack's.
		MaxWallTime time.Duration
		MaxSteps    int
		// Seq is the requested record of the source; From is the source's state after the commit that holds
		// it.
		Seq  uint64
		From *State
		// Values are the values of the source's artifacts, each folded into one value.
		Values []ArtifactWrite
		// Changes replace the value of an artifact, in either mode.
		Changes       []ArtifactWrite
		Conversations []ConversationCopy
		Queued        []QueuedInput
		// ReuseSteps means that requests with the keys of answered steps of the visit get the recorded
		// answers; Steps are the bodies of these steps.
		ReuseSteps bool
		Steps      []TakenStep
	}
	// ConversationCopy is the content of a state's conversation when a run was forked.
	ConversationCopy struct {
		State    string
		Messages []Message
	}
	// QueuedInput is an input that waited for the next turn when a run was forked.
	QueuedInput struct {
		Parts     []Part
		MessageID string
		// Steer, if set, is a steering message that was not yet part of a request; Parts is then empty.
		Steer string
	}
	// TakenStep is the request and the answer of a step that a fork copies.
	TakenStep struct {
		// Step is its number in the fork, from 1.
		Step    uint32
		Payload []byte
		// Result (OK) or Error.
		Result []byte
		Error  Fault
		// Request and Answer are those of a MODEL step.
		Request *ModelRequest
		Answer  *ModelAnswer
		// Before reports whether an earlier turn of the visit requested the step.
		Before bool
	}
	// Forked describes what a run copied from another; nil for a run that was started. Copied items do not
	// count against the run's bounds.
	Forked struct {
		RunID string
		Seq   uint64
		// Visits is the number of copied visits, in all states; Steps the number of copied steps.
		Visits int
		Steps  uint32
		// Keys is added to a turn's seq in its default step keys, so that they differ from the copied ones in
		// the open visit.
		Keys uint64
	}
)

func (Fork) command() CommandKind { return CmdFork }
