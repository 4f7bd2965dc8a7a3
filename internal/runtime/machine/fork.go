package machine

import (
	"time"
)

// CmdFork and what follows it are numbered apart from the commands that move a
// run: 20 to 29 are those of time travel.
const CmdFork CommandKind = 20

type (
	// Fork begins a run as a copy of another at one of its records (section 12);
	// State must be nil. It brings everything that is copied, so that the new run
	// stands alone: its source is never read again.
	Fork struct {
		Namespace uint32
		RunID     string
		// EntryOverride and Execution are those of the new run.
		EntryOverride bool
		Execution     Execution
		// Variables is one compact JSON object: the source's, with the changes.
		Variables []byte
		Labels    []Label
		Limits    Limits
		// MaxWallTime and MaxSteps lower the pack's; 0 = the pack's.
		MaxWallTime time.Duration
		MaxSteps    int
		// Seq is the source's record that was asked for; From its state after the
		// commit that holds it.
		Seq  uint64
		From *State
		// Values are what the source's artifacts hold, each folded into one value.
		Values []ArtifactWrite
		// Changes replace what an artifact holds, whatever its mode.
		Changes       []ArtifactWrite
		Conversations []ConversationCopy
		Queued        []QueuedInput
		// ReuseSteps: the answered steps of the visit are answered by key again;
		// Steps are their bodies.
		ReuseSteps bool
		Steps      []TakenStep
	}
	// ConversationCopy is what a state's conversation held when a run was forked.
	ConversationCopy struct {
		State    string
		Messages []Message
	}
	// QueuedInput waited for the turn that was open when a run was forked.
	QueuedInput struct {
		Parts     []Part
		MessageID string
		// Steer, if it is set, is what was said to the run and not heard; there are no Parts.
		Steer string
	}
	// TakenStep is the request and the answer of a step that a fork takes over.
	TakenStep struct {
		// Step is its number in the fork, from 1.
		Step    uint32
		Payload []byte
		// Result (OK) or Error.
		Result []byte
		Error  Fault
		// Request and Answer of a MODEL step.
		Request *ModelRequest
		Answer  *ModelAnswer
		// Before: a turn of the visit before the open one asked for it.
		Before bool
	}
	// Forked says what a run took over from another; nil for a run that was
	// started. Its bounds count none of it.
	Forked struct {
		RunID string
		Seq   uint64
		// Visits and Steps are how many visits, in all states, and steps were copied.
		Visits int
		Steps  uint32
		// Keys is added to a turn's seq in its default step keys, so that they meet
		// none of the copied ones in the visit that was under way.
		Keys uint64
	}
)

func (Fork) command() CommandKind { return CmdFork }
