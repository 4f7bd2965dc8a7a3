package machine

// Commands and records by which a person steers an active run.
const (
	CmdSteer CommandKind = iota + 51
	CmdStop
)

// Records of them are numbered from 35.
const (
	RecSteered RecordKind = iota + 35
	RecStopped
	RecNoticeAdded
)

// CancelledByUser is the error code in the answers of calls that a person ended.
const CancelledByUser = "CANCELLED_BY_USER"

// CancelledFault is that error.
var CancelledFault = Fault{Code: CancelledByUser, Message: "a person ended it before there was an answer"}

// SteerWhen is when a steering message takes effect; the numbers are stored.
type SteerWhen uint8

const (
	// SteerUnset is not valid.
	SteerUnset SteerWhen = iota
	// NextModelCall: the next request to a model contains it.
	NextModelCall
	// SteerNow: the open turn is ended, and the next turn begins with it.
	SteerNow
	// NextTurn: it is an input of the next turn.
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
	// Stop ends the open turn; the run then waits for an input.
	Stop struct{ Note string }

	// Steered records a Steer.
	Steered struct {
		Text string
		When SteerWhen
	}
	// Stopped records that a person ended a turn. The turn's messages up to ConversationThrough join the
	// conversation, with an answer for each call in the last model answer: Calls[i] is the step of the i-th
	// call, without an Answer if that call was not answered.
	Stopped struct {
		// TurnSeq is 0 if only steps were pending.
		TurnSeq             uint64
		Attempt             int
		Note                string
		ConversationThrough StepRef
		Calls               []StepRef
	}
	// NoticeAdded is a notice of the sidecar that the next request to a model contains.
	NoticeAdded struct {
		// Code is a stable UPPER_SNAKE word, Text the text for the model.
		Code, Text string
	}
)

func (Steer) command() CommandKind { return CmdSteer }
func (Stop) command() CommandKind  { return CmdStop }

func (*Steered) record() RecordKind     { return RecSteered }
func (*Stopped) record() RecordKind     { return RecStopped }
func (*NoticeAdded) record() RecordKind { return RecNoticeAdded }

// RequiredMessage is a text that requests to models must contain until a request with it is answered.
type RequiredMessage struct {
	// Seq is its Steered or NoticeAdded record.
	Seq uint64
	// Row is the position, from 1, of the message in the visit's conversation, once a later turn was opened;
	// 0 = none.
	Row uint64
	// Notice means that it is a NoticeAdded and never joins the conversation by itself. Later means that it
	// is for the next turn. Once means that it is only for the turn that was open then.
	Notice, Later, Once bool
}
