package machine

import (
	"time"
)

// The commands of time travel have the numbers 20 to 29.
const CmdFork CommandKind = 20

type (
	// Fork begins a run as a copy of another run at one of its records (semantics §12). State must be
	// nil. Fork contains all data that is copied, so the new run does not depend on its source. The
	// source is never read again.
	Fork struct {
		Namespace uint32
		RunID     string
		// EntryOverride means that the run began in another state than the entry of its workflow. Execution selects
		// the executor of its turns.
		EntryOverride bool
		Execution     Execution
		// Variables is one compact JSON object: the variables of the source, with the requested changes.
		Variables []byte
		Labels    []Label
		Limits    Limits
		// MaxWallTime and MaxSteps lower the bounds of the pack. 0 means that the bound of the pack
		// applies.
		MaxWallTime time.Duration
		MaxSteps    int
		// Seq is the record of the source at which the caller forks. From is the state of the source after the commit
		// that contains this record.
		Seq  uint64
		From *State
		// Values are the values of the source's artifacts. If an artifact has the mode Append, its writes are combined
		// to one value.
		Values []ArtifactWrite
		// Changes are the values that replace artifacts. Such a value also replaces an artifact with
		// the mode Append.
		Changes       []ArtifactWrite
		Conversations []ConversationCopy
		Queued        []QueuedInput
		// ReuseSteps means that recorded answers are reused: a request whose key belongs to an answered step of the
		// copied visit gets the recorded answer. Steps are the requests and answers of these steps.
		ReuseSteps bool
		Steps      []TakenStep
	}
	// ConversationCopy is the conversation of a state at the time when a run was forked.
	ConversationCopy struct {
		State    string
		Messages []Message
	}
	// QueuedInput is an input that was waiting for the next turn at the record where the run was forked.
	QueuedInput struct {
		Parts     []Part
		MessageID string
		// Steer is the text of a steering message (sent by a person to an active run) that no model request contained
		// yet. If it is set, Parts is empty.
		Steer string
	}
	// TakenStep is the request and the answer of a step that a fork copies.
	TakenStep struct {
		// Step is the number of the step in the fork, from 1.
		Step    uint32
		Payload []byte
		// Result is set if the status is OK. Otherwise Error is set.
		Result []byte
		Error  Fault
		// Request and Answer are set for a MODEL step.
		Request *ModelRequest
		Answer  *ModelAnswer
		// Before reports whether an earlier turn of the same visit requested the step.
		Before bool
	}
	// Forked describes the data that a run copied from another run. It is nil if the run was not
	// forked. Copied items do not count against the run's bounds.
	Forked struct {
		RunID string
		Seq   uint64
		// Visits is the number of copied visits in all states. Steps is the number of copied steps.
		Visits int
		Steps  uint32
		// Keys is added to the seq of a turn when the default keys of its steps are made, so that they differ from the
		// keys of the copied steps.
		Keys uint64
	}
)

func (Fork) command() CommandKind { return CmdFork }
