package machine

import "time"

// StepKind is the kind of a step; the numbers are stored, never renumber.
type StepKind uint8

const (
	// KindTool is a tool call; for a StepRequested with Delegation it is a call of an agent.
	KindTool StepKind = 0
	// KindDelegation is a call of an agent.
	KindDelegation StepKind = 2
	// KindModel is a model call, made by the executor of the turn.
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
		// Round is the round of the turn, from 1. Key, if set, replaces the key derived from it.
		Round int
		Key   string
		Model *ModelRequest
		// IncludeRequired asks the host to add required messages that the request lacks.
		IncludeRequired bool
		// Bound is the maximum that the call may consume.
		Bound Usage
		// Assigned is the requesting execution; nil = a principal from outside.
		Assigned *Assignment
	}
	// AnswerModel reports the outcome of a model call. TurnSeq, TurnAttempt and Assigned are the reporting
	// execution.
	AnswerModel struct {
		TurnSeq     uint64
		TurnAttempt int
		Step        uint32
		Attempt     int
		// Answer is nil if Error says why there is none.
		Answer *ModelAnswer
		Error  Fault
		// Final means that no further attempt can help; RetryAfter is the pause that the provider asks for.
		Final      bool
		RetryAfter time.Duration
		Usage      Usage
		Assigned   *Assignment
	}
	// UpdateModelCall stores the provider's id of a response that is in progress.
	UpdateModelCall struct {
		TurnSeq     uint64
		TurnAttempt int
		Step        uint32
		Attempt     int
		ResponseID  string
		Assigned    *Assignment
	}
	// ModelUpdated records a change of a MODEL step other than its request and its answer.
	ModelUpdated struct {
		Step       uint32
		Attempt    int
		ResponseID string
		// Usage is that of an attempt with an answer that came too late.
		Usage Usage
		// Changed means that a later execution requested a different call, with the digest Hash.
		Changed bool
		Hash    [32]byte
	}
)

func (RequestModel) command() CommandKind    { return CmdRequestModel }
func (AnswerModel) command() CommandKind     { return CmdAnswerModel }
func (UpdateModelCall) command() CommandKind { return CmdUpdateModelCall }
func (*ModelUpdated) record() RecordKind     { return RecModelUpdated }

type (
	// ModelRequest is a request to a model. The host fills in the references to earlier texts, and the
	// digests. A reader needs only the run's records to rebuild the full request.
	ModelRequest struct {
		Model string
		// PreviousStep is a MODEL step; its messages and answer come before this request's messages. Zero =
		// none.
		PreviousStep StepRef
		// System, Tools (JSON) and Parameters (JSON) are complete, whether copied from an earlier request or
		// not.
		System, Tools, Parameters ModelText
		Messages                  []ModelMessage
		// IncludedSeqs are the Steered and NoticeAdded records that were required and that the request
		// contains.
		IncludedSeqs []uint64
		// Thread is the digest of all messages, Hash that of the whole request.
		Thread, Hash [32]byte
	}
	// StepRef names a step, the record that requested it and the one that answered it.
	StepRef struct {
		Step            uint32
		Request, Answer uint64
	}
	// ModelText is a text of a request; without a Hash there is no text.
	ModelText struct {
		Hash [32]byte
		// Seq is the record that has a request with this text; 0 = it is in Text.
		Seq  uint64
		Text string
	}
	// ModelMessage is one message, or a range of earlier messages. Exactly one of its fields is set.
	ModelMessage struct {
		Message      *Message
		Conversation *ConversationRange
		// Answer is that of a MODEL step.
		Answer *StepRef
		Result *ToolResult
		// IncludedSeq is a Steered or NoticeAdded record; 0 = another field is set.
		IncludedSeq uint64
	}
	// ConversationRange is Count messages, from the First (counted from 0), of the conversation in a state's
	// message rows [From, Next).
	ConversationRange struct {
		State        string
		From, Next   uint64
		First, Count int
	}
	// ToolResult is the answer of a tool step as the model gets it.
	ToolResult struct {
		AnsweredStep StepRef
		CallID       string
	}
	// ModelAnswer is the answer of a model.
	ModelAnswer struct {
		Parts []Part
		Calls []ModelCall
		// Refusal is the model's text if it refused; Finish is the reason why the answer ended.
		Refusal, Finish string
		Model           string
		ResponseID      string
		// Provider is the message in the format of the executor's library, JSON; ProviderName names the
		// provider.
		Provider     []byte
		ProviderName string
	}
	// ModelCall is one tool call in an answer. Broken is the model's text if its arguments are not a JSON
	// object.
	ModelCall struct{ ID, Name, Arguments, Broken string }
	// CallRef identifies a tool call in the answer of a MODEL step; Index counts from 0.
	CallRef struct {
		Step  uint32
		Index int
	}
)

// ModelStep has the additional data of a MODEL step. Most of it belongs to the pending attempt, so that
// answered steps are small.
type ModelStep struct {
	// TurnAttempt and By are the execution that requested it last.
	TurnAttempt int
	By          Assignment
	// Failed counts the attempts that failed in that execution.
	Failed int
	// NotBefore is when the attempt may begin, Unix nanoseconds; 0 = at once.
	NotBefore  int64
	ResponseID string
	// Tokens and CostMicro are the call's bound, Output the part of the tokens that the model may write.
	Tokens, CostMicro, Output int64
	// Bounded means that a budget of the run, or an account, limits the call, so that its maker must not
	// request more.
	Bounded bool
	// Price is the operator's price of the model at the time of the request, which applies to the call's
	// usage; nil = the pack has a price, or there is none.
	Price *Price
	// Calls is the number of tool calls in the answer.
	Calls int
	// Changed means that a different request was recorded for this step.
	Changed bool
	// Rejected means that the answer was rejected, and its round is requested again as another step.
	Rejected bool
}

// TextRef names the record that has a text of requests.
type TextRef struct {
	Hash [32]byte
	Seq  uint64
}

// MaxTextRefs bounds the texts that a run remembers; a text that was dropped is stored again.
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
