package machine

// These are the numbers of the commands and records by which a person steers an active run.
const (
	CmdSteer CommandKind = iota + 51
	CmdStop
)

// The records of steering are numbered from 35.
const (
	RecSteered RecordKind = iota + 35
	RecStopped
	RecNoticeAdded
)

// CancelledByUser is the error code of a call that a person ended before there was an answer.
const CancelledByUser = "CANCELLED_BY_USER"

// CancelledFault is the error of a call that a person ended.
var CancelledFault = Fault{Code: CancelledByUser, Message: "a person ended it before there was an answer"}

// SteerWhen is the time at which a steering message takes effect. The numbers are stored.
type SteerWhen uint8

const (
	// SteerUnset is not valid.
	SteerUnset SteerWhen = iota
	// NextModelCall means that the next request to a model contains the message.
	NextModelCall
	// SteerNow means that the open turn ends, and the next turn begins with the message.
	SteerNow
	// NextTurn means that the message is an input of the next turn.
	NextTurn
)

// Known reports whether the value is valid.
func (w SteerWhen) Known() bool { return w >= NextModelCall && w <= NextTurn }

type (
	// Steer sends a steering message to an active run.
	Steer struct {
		Text string
		When SteerWhen
	}
	// Stop ends the open turn. Then the run waits for an input.
	Stop struct{ Note string }

	// Steered records a Steer.
	Steered struct {
		Text string
		When SteerWhen
	}
	// Stopped records that a person ended a turn. The messages of the turn up to the step
	// ConversationThrough are added to the conversation, with an answer for each call in the last
	// answer of the model. Calls[i] is the step of the i-th call. Calls[i] has no Answer if the call
	// was not answered.
	Stopped struct {
		// TurnSeq is the turn that was ended. It is 0 if there was no turn and only steps were pending.
		TurnSeq             uint64
		Attempt             int
		Note                string
		ConversationThrough StepRef
		Calls               []StepRef
	}
	// NoticeAdded is a notice that the sidecar adds to the next request to a model.
	NoticeAdded struct {
		// Code is a stable word in UPPER_SNAKE case. Text is the text for the model.
		Code, Text string
	}
)

func (Steer) command() CommandKind { return CmdSteer }
func (Stop) command() CommandKind  { return CmdStop }

func (*Steered) record() RecordKind     { return RecSteered }
func (*Stopped) record() RecordKind     { return RecStopped }
func (*NoticeAdded) record() RecordKind { return RecNoticeAdded }

// RequiredMessage is a text that requests to models must contain until a request that contains it is
// answered.
type RequiredMessage struct {
	// Seq is the Steered or NoticeAdded record of the text.
	Seq uint64
	// Row is the position of the message in the conversation of the visit, from 1. It is set when a
	// later turn was opened. Before that it is 0.
	Row uint64
	// Notice means that the text is a notice, which is not added to the conversation as a message of
	// its own. Later means that the text is for the next turn. Once means that it is only for the turn
	// that was open when it was added.
	Notice, Later, Once bool
}
