package machine

import "time"

// StepKind says what a step is; the numbers are stored, never renumber.
type StepKind uint8

const (
	// KindTool is a tool call; of a StepRequested with Delegation that of an agent.
	KindTool StepKind = 0
	// KindDelegation is a call of an agent.
	KindDelegation StepKind = 2
	// KindModel is a call of a model, made by whoever executes the turn.
	KindModel StepKind = 3
)

// Commands and records of models.
const (
	CmdRequestModel CommandKind = iota + 40
	CmdAnswerModel
	CmdUpdateModelCall
)

// RecModelUpdated is the number of [ModelUpdated].
const RecModelUpdated RecordKind = 33

// MaxAnswerBytes bounds what a model's answer holds.
const MaxAnswerBytes = 1 << 20

type (
	// RequestModel asks for a call of a model in the open turn.
	RequestModel struct {
		TurnSeq uint64
		Attempt int
		// Round of the turn, from 1; Key takes the place of the key that it makes.
		Round int
		Key   string
		Model *ModelRequest
		// IncludeRequired: what the request had to contain and did not was to be added by the host.
		IncludeRequired bool
		// Bound is what the call may consume at most.
		Bound Usage
		// Assigned is the execution that asks; nil = by a principal from outside.
		Assigned *Assignment
	}
	// AnswerModel tells what came of a call of a model. Turn, TurnAttempt and Assigned are
	// the execution that tells it.
	AnswerModel struct {
		TurnSeq     uint64
		TurnAttempt int
		Step        uint32
		Attempt     int
		// Answer is nil where Error says why there is none.
		Answer *ModelAnswer
		Error  Fault
		// Final: no further attempt can help; RetryAfter is how long the provider asks to
		// wait for one.
		Final      bool
		RetryAfter time.Duration
		Usage      Usage
		Assigned   *Assignment
	}
	// UpdateModelCall keeps the provider's id of a response that is being made.
	UpdateModelCall struct {
		TurnSeq     uint64
		TurnAttempt int
		Step        uint32
		Attempt     int
		ResponseID  string
		Assigned    *Assignment
	}
	// ModelUpdated is news of a MODEL step that neither asks nor answers it.
	ModelUpdated struct {
		Step       uint32
		Attempt    int
		ResponseID string
		// Usage of an attempt whose answer came too late.
		Usage Usage
		// Changed: a later execution asked for something else, of the digest Hash.
		Changed bool
		Hash    [32]byte
	}
)

func (RequestModel) command() CommandKind    { return CmdRequestModel }
func (AnswerModel) command() CommandKind     { return CmdAnswerModel }
func (UpdateModelCall) command() CommandKind { return CmdUpdateModelCall }
func (*ModelUpdated) record() RecordKind     { return RecModelUpdated }

type (
	// ModelRequest is what a model is asked. The host fills in where what was said before
	// is, and the digests; whoever reads it needs nothing else than the run's records.
	ModelRequest struct {
		Model string
		// PreviousStep is a MODEL step whose messages and answer come first; 0 = none.
		PreviousStep StepRef
		// System, Tools (JSON) and Parameters (JSON) are what holds, taken over or not.
		System, Tools, Parameters ModelText
		Messages                  []ModelMessage
		// IncludedSeqs are the Steered and Noticed records that it contains of those that have to be
		// in it.
		IncludedSeqs []uint64
		// Thread is the digest of all messages, Hash that of everything.
		Thread, Hash [32]byte
	}
	// StepRef names a step, the record that asked and the one that answered it.
	StepRef struct {
		Step            uint32
		Request, Answer uint64
	}
	// ModelText is a text of a request; without a Hash there is none.
	ModelText struct {
		Hash [32]byte
		// Seq is the record whose request has the text; 0 = Text is it.
		Seq  uint64
		Text string
	}
	// ModelMessage is one message, or some that were said before: one of its fields.
	ModelMessage struct {
		Message      *Message
		Conversation *ConversationRange
		// Answer is a MODEL step's.
		Answer *StepRef
		Result *ToolResult
		// IncludedSeq is a Steered or Noticed record; 0 = it is another field.
		IncludedSeq uint64
	}
	// ConversationRange is Count messages from First, from 0, of the conversation that is a
	// state's message rows [From, Next).
	ConversationRange struct {
		State        string
		From, Next   uint64
		First, Count int
	}
	// ToolResult is what a tool step's answer says to the model.
	ToolResult struct {
		AnsweredStep StepRef
		CallID       string
	}
	// ModelAnswer is what a model answered.
	ModelAnswer struct {
		Parts []Part
		Calls []ModelCall
		// Refusal is why it would not, in its words; Finish why it ended.
		Refusal, Finish string
		Model           string
		ResponseID      string
		// Provider is the message as the executor's library has it, JSON; ProviderName names who
		// answered.
		Provider     []byte
		ProviderName string
	}
	// ModelCall is one tool call of an answer. Broken is what the model wrote where that was no
	// object.
	ModelCall struct{ ID, Name, Arguments, Broken string }
	// CallRef names a tool call of a MODEL step, from 0.
	CallRef struct {
		Step  uint32
		Index int
	}
)

// ModelStep is what there is to a MODEL step besides what every step has. Most of it is
// of the attempt that is pending, so that what is answered stays small.
type ModelStep struct {
	// TurnAttempt and By are the execution that asked last.
	TurnAttempt int
	By          Assignment
	// Failed counts the attempts that failed in that execution.
	Failed int
	// NotBefore is when the attempt may begin, Unix nanoseconds; 0 = at once.
	NotBefore  int64
	ResponseID string
	// Tokens and CostMicro are its bound, and Output those of the tokens that the model may
	// write.
	Tokens, CostMicro, Output int64
	// Bounded: a budget of the run, or an account, holds the call to it, so that whoever makes
	// the call asks for no more.
	Bounded bool
	// Price is the operator's of the model when it was asked, which holds for what the call
	// consumes; nil = the pack has one, or nobody.
	Price *Price
	// Calls counts the tool calls of the answer.
	Calls int
	// Changed: it was recorded that another request was made.
	Changed bool
	// Rejected: the answer was rejected, and its round is asked anew as another step.
	Rejected bool
}

// TextRef says which record has a text of requests.
type TextRef struct {
	Hash [32]byte
	Seq  uint64
}

// MaxTextRefs bounds what a run remembers of them; one that is forgotten is stored again.
const MaxTextRefs = 32

// Kind is what the step is.
func (s *ToolStep) Kind() StepKind {
	switch {
	case s.Model != nil:
		return KindModel
	case s.Delegation:
		return KindDelegation
	}
	return KindTool
}
