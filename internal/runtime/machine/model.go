package machine

import "time"

// StepKind is the kind of a step. The numbers are stored, so they must never change.
type StepKind uint8

const (
	// KindTool is a tool call. In a StepRequested with Delegation it is a call of an agent.
	KindTool StepKind = 0
	// KindDelegation is a call of an agent.
	KindDelegation StepKind = 2
	// KindModel is a model call, which the executor of the turn makes.
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

// MaxAnswerBytes bounds the size of a model's answer.
const MaxAnswerBytes = 1 << 20

type (
	// RequestModel requests a model call in the open turn.
	RequestModel struct {
		TurnSeq uint64
		Attempt int
		// Round is the number of the model request in the turn, counted from 1. The key of the step is derived from it,
		// except if Key is set.
		Round int
		Key   string
		Model *ModelRequest
		// IncludeRequired makes the engine add the required messages that the request does not contain: steering messages of
		// people, and notices of the sidecar.
		IncludeRequired bool
		// Bound is the maximum that the call may consume.
		Bound Usage
		// Assigned is the delivery (one assignment of the turn to an executor) under which the request is made. For a caller
		// it has only the number of the caller's token. It is nil if the request has no valid token.
		Assigned *Assignment
		// Denied is the refusal of a new request because of the pack's tool policy. The engine sets it. It is nil if
		// the request is not refused.
		Denied *Denial
	}
	// AnswerModel reports the outcome of a model call. TurnSeq, TurnAttempt and Assigned identify the execution that reports it.
	AnswerModel struct {
		TurnSeq     uint64
		TurnAttempt int
		Step        uint32
		Attempt     int
		// Answer is the answer of the model. It is nil if the call failed; then Error is set.
		Answer *ModelAnswer
		Error  Fault
		// Final means that another attempt would be useless. RetryAfter is the pause before the next attempt that the
		// provider requests. 0 means none.
		Final      bool
		RetryAfter time.Duration
		Usage      Usage
		Assigned   *Assignment
		// Violation is the first validator of the prompt that the answer violates. The engine runs the validators and
		// sets it. It is nil if there is none.
		Violation *Violation
	}
	// UpdateModelCall stores the id that the provider gave to a response that is still being generated.
	UpdateModelCall struct {
		TurnSeq     uint64
		TurnAttempt int
		Step        uint32
		Attempt     int
		ResponseID  string
		Assigned    *Assignment
	}
	// ModelUpdated records a change of a MODEL step that is neither a request nor an answer.
	ModelUpdated struct {
		Step       uint32
		Attempt    int
		ResponseID string
		// Usage is the usage of an attempt whose answer came too late.
		Usage Usage
		// Changed means that a later execution of the turn made a different request for the step. Hash is the digest of
		// that request.
		Changed bool
		Hash    [32]byte
	}
)

func (RequestModel) command() CommandKind    { return CmdRequestModel }
func (AnswerModel) command() CommandKind     { return CmdAnswerModel }
func (UpdateModelCall) command() CommandKind { return CmdUpdateModelCall }
func (*ModelUpdated) record() RecordKind     { return RecModelUpdated }

type (
	// ModelRequest is a request to a model. The engine sets the digests, and replaces a text that a
	// record already contains by a reference to the record. The full request can be built from the
	// records of the run alone.
	ModelRequest struct {
		Model string
		// PreviousStep is a MODEL step. Its messages and its answer come before the messages of this request. It is
		// zero if there is none.
		PreviousStep StepRef
		// System, Tools (JSON) and Parameters (JSON) are always complete, even if the request continues a previous
		// step.
		System, Tools, Parameters ModelText
		Messages                  []ModelMessage
		// IncludedSeqs are the seqs of Steered and NoticeAdded records. The request contains their messages. A request must
		// contain every required message.
		IncludedSeqs []uint64
		// Thread is the digest of all messages. Hash is the digest of the whole request.
		Thread, Hash [32]byte
	}
	// StepRef identifies a step, the record that requested it and the record that answered it.
	StepRef struct {
		Step            uint32
		Request, Answer uint64
	}
	// ModelText is a system prompt, a list of tools or the parameters of a request. If Hash is zero, the request has no
	// such text.
	ModelText struct {
		Hash [32]byte
		// Seq is the record with an earlier request that contains this text. If it is 0, Text contains the text.
		Seq  uint64
		Text string
	}
	// ModelMessage is one message of a request, or a range of earlier messages. Exactly one of its fields is set.
	ModelMessage struct {
		Message      *Message
		Conversation *ConversationRange
		// Answer is the MODEL step whose answer is the message.
		Answer *StepRef
		Result *ToolResult
		// IncludedSeq is the Steered or NoticeAdded record whose text is the message. It is 0 if another field is set.
		IncludedSeq uint64
	}
	// ConversationRange is a range of messages of a state's conversation. The messages are in the message rows from
	// From (inclusive) to Next (exclusive). The range begins at the message with the index First, counted from 0, and
	// has Count messages.
	ConversationRange struct {
		State        string
		From, Next   uint64
		First, Count int
	}
	// ToolResult is the answer of a tool step, in the form in which the model gets it.
	ToolResult struct {
		AnsweredStep StepRef
		CallID       string
	}
	// ModelAnswer is the answer of a model.
	ModelAnswer struct {
		Parts []Part
		Calls []ModelCall
		// Refusal is the text with which the model refused to answer. Finish is the provider's reason why the answer
		// ended, for example a length limit.
		Refusal, Finish string
		Model           string
		ResponseID      string
		// Provider is the whole message as JSON in the format of the executor's library. ProviderName is the name of
		// the provider.
		Provider     []byte
		ProviderName string
	}
	// ModelCall is one tool call in an answer of a model. If the model generated arguments that are not a JSON
	// object, Arguments is {}, and Broken contains the generated text.
	ModelCall struct{ ID, Name, Arguments, Broken string }
	// CallRef identifies a tool call in the answer of a MODEL step. Index counts from 0.
	CallRef struct {
		Step  uint32
		Index int
	}
)

// ModelStep is the data that only a MODEL step has. Most of the fields are set only while an attempt is pending, so
// that an answered step needs little space.
type ModelStep struct {
	// TurnAttempt and By identify the execution of the turn that last requested the step.
	TurnAttempt int
	By          Assignment
	// Failed is the number of attempts of the call that failed in this execution of the turn.
	Failed int
	// NotBefore is the earliest time at which the attempt may begin, in Unix nanoseconds. 0 means
	// immediately.
	NotBefore  int64
	ResponseID string
	// Tokens and CostMicro are the maximum that the call may consume. Output is the part of the tokens that the model
	// may generate.
	Tokens, CostMicro, Output int64
	// Bounded means that a budget of the run or an operator's account limits the call, so the executor must not let the
	// model consume more.
	Bounded bool
	// Price is the operator's price of the model at the time when the call was requested. It applies to
	// the usage of the call. It is nil if the pack has a price, or if there is no price.
	Price *Price
	// Calls is the number of tool calls in the answer.
	Calls int
	// Changed means that a later execution made a different request for this step, and that a ModelUpdated record
	// already says so.
	Changed bool
	// Rejected means that the executor rejected the answer. The turn then makes the request again as another step.
	Rejected bool
}

// TextRef identifies the record that contains a text of a model request, by the hash of the text.
type TextRef struct {
	Hash [32]byte
	Seq  uint64
}

// MaxTextRefs bounds the number of texts to which a run's new model requests can refer. A text that is no longer in the
// list is stored again with the next request.
const MaxTextRefs = 32

// Kind returns the kind of the step.
func (s *ToolStep) Kind() StepKind {
	switch {
	case s.Model != nil:
		return KindModel
	case s.Delegation:
		return KindDelegation
	}
	return KindTool
}
