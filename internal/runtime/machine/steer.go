package machine

// Commands and records by which a person has a word in a run that goes on.
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

// CancelledByUser is the code of the error by which calls are answered that a person ended.
const CancelledByUser = "CANCELLED_BY_USER"

// CancelledFault is that error.
var CancelledFault = Fault{Code: CancelledByUser, Message: "a person ended it before there was an answer"}

// SteerWhen says when what is said to a run counts; the numbers are stored.
type SteerWhen uint8

const (
	// SteerUnset is no valid choice.
	SteerUnset SteerWhen = iota
	// NextModelCall: the next request to a model contains it.
	NextModelCall
	// SteerNow: what is under way is put away, and the next turn begins with it.
	SteerNow
	// NextTurn: it is an input of the next turn.
	NextTurn
)

// Known: it says when.
func (w SteerWhen) Known() bool { return w >= NextModelCall && w <= NextTurn }

type (
	// Steer says something to a run that goes on.
	Steer struct {
		Text string
		When SteerWhen
	}
	// Stop puts the open turn away; the run then waits for an input.
	Stop struct{ Note string }

	// Steered is Steer.
	Steered struct {
		Text string
		When SteerWhen
	}
	// Stopped is the end of a turn by a person. What it said up to Said joins the
	// conversation, and an answer to each of that answer's calls: Calls[i] is the step of
	// the i-th, without an Answer where nobody answered it.
	Stopped struct {
		// TurnSeq is 0 where only steps were pending.
		TurnSeq             uint64
		Attempt             int
		Note                string
		ConversationThrough StepRef
		Calls               []StepRef
	}
	// NoticeAdded is a notice of the sidecar's that the next request to a model contains.
	NoticeAdded struct {
		// Code is a stable UPPER_SNAKE word, Text what the model is told.
		Code, Text string
	}
)

func (Steer) command() CommandKind { return CmdSteer }
func (Stop) command() CommandKind  { return CmdStop }

func (*Steered) record() RecordKind     { return RecSteered }
func (*Stopped) record() RecordKind     { return RecStopped }
func (*NoticeAdded) record() RecordKind { return RecNoticeAdded }

// RequiredMessage is a text that requests to models have to contain until one that does is answered.
type RequiredMessage struct {
	// Seq is its Steered or Noticed record.
	Seq uint64
	// Row is, from 1, the message of the visit's conversation that it is, once a turn was
	// opened behind it; 0 = none.
	Row uint64
	// Notice: it is Noticed, and never joins the conversation by itself. Later: it is said
	// to the next turn. Once: it is said to the turn of then alone.
	Notice, Later, Once bool
}
