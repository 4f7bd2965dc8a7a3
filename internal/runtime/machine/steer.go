package machine

// These are the numbers of the commands with which a person steers or stops an active run.
const (
	CmdSteer CommandKind = iota + 51
	CmdStop
)

// These are the kinds of the records about steering (messages by which a person steers an active
// run) and about notices. Their numbers begin at 35.
const (
	RecSteered RecordKind = iota + 35
	RecStopped
	RecNoticeAdded
)

// CancelledByUser is the error code of a call that a person stopped before it was answered.
const CancelledByUser = "CANCELLED_BY_USER"

// CancelledFault is the error of a call that a person stopped before it was answered.
var CancelledFault = Fault{Code: CancelledByUser, Message: "a person ended it before there was an answer"}

// SteerWhen says when a steering message takes effect. The numbers are stored, so they must never
// change.
type SteerWhen uint8

const (
	// SteerUnset is not valid.
	SteerUnset SteerWhen = iota
	// NextModelCall means that the next request to a model contains the steering message.
	NextModelCall
	// SteerNow means that the open turn ends, and the next turn begins with the steering message.
	SteerNow
	// NextTurn means that the steering message is an input of the next turn.
	NextTurn
)

// Known reports whether the value is valid.
func (w SteerWhen) Known() bool { return w >= NextModelCall && w <= NextTurn }

type (
	// Steer sends a steering message to an active run. The message comes from a person and changes what
	// the next model request or the next turn contains.
	Steer struct {
		Text string
		When SteerWhen
	}
	// Stop ends the open turn at the request of a person. Then the run waits for an input.
	Stop struct{ Note string }

	// Steered records a Steer.
	Steered struct {
		Text string
		When SteerWhen
	}
	// Stopped records that a person ended a turn. The messages of the turn up to the step
	// ConversationThrough are added to the conversation. Calls[i] is the step of the i-th call in the
	// model's last answer. It has no Answer if the call was not answered.
	Stopped struct {
		// TurnSeq is the seq of the turn that was ended. It is 0 if no turn was open and only steps
		// were pending.
		TurnSeq             uint64
		Attempt             int
		Note                string
		ConversationThrough StepRef
		Calls               []StepRef
	}
	// NoticeAdded records a notice: a message of the sidecar that the next request to a model must
	// contain.
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
	// Seq is the seq of the record (Steered or NoticeAdded) that contains the text.
	Seq uint64
	// Row is the number of the conversation row that contains the message, from 1. It is 0 until a
	// turn begins with the message.
	Row uint64
	// Notice means that the text is a notice, which is not added to the conversation as a message of
	// its own. Later means that the text is for the next turn. Once means that it is only for the turn
	// that was open when it was added.
	Notice, Later, Once bool
}
