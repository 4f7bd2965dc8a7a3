package rules

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// sendInput opens a further turn of the visit with the input. If a turn is open, the input is queued for the next turn. An
// input with a step is the answer to an agent's question and opens no turn.
func (t *txn) sendInput(c *machine.SendInput) error {
	if err := t.checkOpen(); err != nil {
		return err
	}
	if len(c.Parts) == 0 {
		return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "NO_PARTS", Field: "parts", Message: "an input needs a part"}
	}
	if c.Step != 0 {
		return t.answerDelegation(c)
	}
	size := PartsBytes(c.Parts) + EnvelopeBytes(c.Envelope)
	if err := First(t.checkMessageBytes(size), t.checkQueue()); err != nil {
		return err
	}
	t.resetProgress()
	queued := t.s.Turn != nil
	seq := t.record(&machine.InputReceived{Parts: c.Parts, MessageID: t.input.ID, Queued: queued, Envelope: c.Envelope})
	t.s.MessageBytes += size
	t.s.Queue = append(slices.Clip(t.s.Queue), seq)
	if !queued {
		t.nextTurn()
	}
	return nil
}

// checkQueue returns an error if a turn is open and too many inputs are already queued.
func (t *txn) checkQueue() error {
	limit := t.s.Limits.MaxQueuedInputs
	if t.s.Turn == nil || len(t.s.Queue) < limit {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeResourceExhausted, Reason: "INPUT_QUEUE_FULL", Field: "parts",
		Message: fmt.Sprintf("%d inputs wait for the open turn to end", limit), Limit: int64(limit), Got: int64(limit) + 1,
	}
}

func (t *txn) checkMessageBytes(more int64) error {
	limit, got := t.s.Limits.MaxMessageBytes, t.s.MessageBytes+more
	if got <= limit {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeResourceExhausted, Reason: "MESSAGES_TOO_LARGE", Field: "messages",
		Message: fmt.Sprintf("the run's messages would hold %d bytes, at most %d", got, limit), Limit: limit, Got: got,
	}
}

// nextTurn opens a further turn of the visit. The input of the turn consists of all queued inputs and of the steering
// messages of people that are still unused.
func (t *txn) nextTurn() {
	t.queueSteering()
	seq := t.record(&machine.TurnOpened{State: t.s.Current, Inputs: t.s.Queue})
	t.openTurn(seq)
	t.drainQueue()
}

// drainQueue adds the queued inputs to the conversation of the current state and empties the queue.
func (t *txn) drainQueue() {
	for _, seq := range t.s.Queue {
		t.addMessage(seq)
		t.markIncluded(seq)
	}
	t.s.Queue = nil
}

// addMessage adds a row to the conversation of the current state. The row refers to the record seq, which contains the
// messages.
func (t *txn) addMessage(seq uint64) {
	c := t.conversation(t.s.Current)
	t.messages = append(t.messages, machine.MessageRow{State: c.State, N: c.Next, Seq: seq})
	c.Next++
}

// resetConversation makes the next visit of the state begin without the messages of earlier visits.
func (t *txn) resetConversation(state string) {
	for i := range t.s.Conversations {
		c := &t.s.Conversations[i]
		if c.State == state && c.From != c.Next {
			c = t.conversation(state)
			c.From = c.Next
			return
		}
	}
}

// conversation returns the message rows of a state that its turns see, in a copy that the caller may change.
func (t *txn) conversation(state string) *machine.Conversation {
	if !t.copied.conversations {
		t.s.Conversations, t.copied.conversations = slices.Clone(t.s.Conversations), true
	}
	list := t.s.Conversations
	for i := range list {
		if list[i].State == state {
			return &list[i]
		}
	}
	list = append(list, machine.Conversation{State: state})
	t.s.Conversations = list
	return &list[len(list)-1]
}

// whyByUser is the recorded reason of a model call that was cancelled because a person stopped the turn (semantics
// §15).
const whyByUser = "cancelled_by_user"

// steer applies a steering message, which a person sends to an active run. The next model request of the open turn must
// contain the message. With SteerNow the open turn ends, and the next turn begins with the message. With NextTurn the
// message waits for the next turn. If no turn is open, a turn is opened with the message.
func (t *txn) steer(c *machine.Steer) error {
	if err := First(t.checkOpen(), CheckSteer(c), t.checkMessageBytes(int64(len(c.Text))), t.checkSteeringQueue(c)); err != nil {
		return err
	}
	t.resetProgress()
	seq := t.record(&machine.Steered{Text: c.Text, When: c.When})
	t.s.MessageBytes += int64(len(c.Text))
	t.addRequiredMessage(machine.RequiredMessage{Seq: seq, Later: c.When == machine.NextTurn})
	if c.When == machine.SteerNow && t.isBusy() {
		t.putAway("")
	}
	if t.s.Turn == nil {
		t.nextTurn()
	}
	return nil
}

// stop ends the open turn. Then the run waits for an input. Inputs that were queued are added to the conversation and open
// no turn. If no turn is open and no step is pending, stop does nothing.
func (t *txn) stop(c *machine.Stop) error {
	if err := t.checkOpen(); err != nil {
		return err
	}
	if !t.isBusy() {
		return nil
	}
	t.resetProgress()
	t.putAway(c.Note)
	t.drainQueue()
	return nil
}

// isBusy reports whether a turn is open or a step is pending.
func (t *txn) isBusy() bool { return t.s.Turn != nil || len(PendingSteps(t.s)) > 0 }

// checkSteeringQueue returns an error if too many steering messages and inputs already wait for the open turn. A message
// with SteerNow does not wait, so it is always accepted.
func (t *txn) checkSteeringQueue(c *machine.Steer) error {
	limit, got := t.s.Limits.MaxQueuedInputs, len(t.s.Queue)+t.pendingSteering()
	if t.s.Turn == nil || c.When == machine.SteerNow || got < limit {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeResourceExhausted, Reason: "INPUT_QUEUE_FULL", Field: "text",
		Message: fmt.Sprintf("%d messages wait for the next model call", got), Limit: int64(limit), Got: int64(got) + 1,
	}
}

// addRequiredMessage adds a message that the next request to a model must contain.
func (t *txn) addRequiredMessage(h machine.RequiredMessage) {
	t.s.RequiredMessages = append(slices.Clip(t.s.RequiredMessages), h)
}

// addNotice records a notice: a message of the sidecar that the next model request must contain. If once is true, the
// notice is dropped when the open turn ends.
func (t *txn) addNotice(n machine.NoticeAdded, once bool) {
	t.addRequiredMessage(machine.RequiredMessage{Seq: t.record(&n), Notice: true, Once: once})
}

// putAway ends the open turn at the request of a person. Pending model calls are cancelled.
// Every other pending call gets an answer, so that the messages of the turn can be added to the
// conversation.
func (t *txn) putAway(note string) {
	t.dropModels(whyByUser)
	t.answerCancelled()
	stopped := &machine.Stopped{Note: note}
	turn := t.s.Turn
	if turn != nil {
		stopped.TurnSeq, stopped.Attempt = turn.Seq, turn.Attempt
		stopped.ConversationThrough, stopped.Calls = t.lastAnswer(turn.Seq)
	}
	seq := t.record(stopped)
	if stopped.ConversationThrough.Step != 0 {
		t.addMessage(seq)
	}
	t.s.Turn, t.s.Awaiting = nil, machine.AwaitNothing
}

// answerCancelled answers the pending steps of the visit with the error CANCELLED_BY_USER. If a step was already sent,
// its outcome is unknown.
func (t *txn) answerCancelled() {
	for i := range t.s.Steps {
		if t.s.Steps[i].Status != machine.StepStatusPending {
			continue
		}
		step := &t.steps()[i]
		if step.Delegation {
			t.callOff(step)
		}
		unsent := t.isUnsent(step)
		step.AnswerSeq = t.record(&machine.StepResolved{
			Step: step.Step, Tool: step.Tool, Attempt: step.Attempt, Error: machine.CancelledFault, Unknown: !unsent, Kind: t.recordedKind(step.Kind()),
			Usage: t.chargeMaximum(step),
		})
		step.Status, step.Deadline, step.Inquiry = machine.StepStatusError, 0, 0
		step.AnswerHash = answerHash(false, nil, machine.CancelledFault)
		if !unsent {
			t.markDoubtful(step)
		}
		t.settleEffect(step)
		t.recordEffect(step)
	}
}

// lastAnswer returns the step of the model's last answer in the turn, and the steps that execute its tool calls.
func (t *txn) lastAnswer(turn uint64) (last machine.StepRef, calls []machine.StepRef) {
	for i := len(t.s.Steps) - 1; i >= 0; i-- {
		p := &t.s.Steps[i]
		if !IsTurnAnswer(p, turn) {
			continue
		}
		last = machine.StepRef{Step: p.Step, Request: p.RequestSeq, Answer: p.AnswerSeq}
		if p.Model.Calls > 0 {
			calls = make([]machine.StepRef, p.Model.Calls)
		}
		break
	}
	for i := range t.s.Steps {
		if p := &t.s.Steps[i]; p.Call != nil && p.Call.Step == last.Step && last.Step != 0 && IsAnswered(p) {
			calls[p.Call.Index] = machine.StepRef{Step: p.Step, Request: p.RequestSeq, Answer: p.AnswerSeq}
		}
	}
	return last, calls
}

// pendingSteering counts the steering messages of people that are neither in the conversation nor in an answered model
// request.
func (t *txn) pendingSteering() (n int) {
	for _, h := range t.s.RequiredMessages {
		if !h.Notice && h.Row == 0 {
			n++
		}
	}
	return n
}

// queueSteering adds the unused steering messages of people to the inputs of the turn that is about to be opened.
// Messages with which the previous turn began are removed, because the conversation already contains them. Notices that
// were only for the previous turn are removed, too.
func (t *txn) queueSteering() {
	if len(t.s.RequiredMessages) == 0 {
		return
	}
	var left []machine.RequiredMessage
	queue := slices.Clip(t.s.Queue)
	for _, h := range t.s.RequiredMessages {
		if h.Row != 0 || h.Once {
			continue
		}
		if !h.Notice {
			queue, h.Later = append(queue, h.Seq), false
		}
		left = append(left, h)
	}
	slices.Sort(queue)
	t.s.RequiredMessages, t.s.Queue = left, queue
}

// markIncluded stores that the newest row of the conversation contains the required message with the record seq.
func (t *txn) markIncluded(seq uint64) {
	i := slices.IndexFunc(t.s.RequiredMessages, func(h machine.RequiredMessage) bool { return h.Seq == seq })
	if i < 0 {
		return
	}
	t.s.RequiredMessages = slices.Clone(t.s.RequiredMessages)
	t.s.RequiredMessages[i].Row = t.conversation(t.s.Current).Next
}

// dropIncluded removes the required messages (steering messages and notices) that the answered model request contained.
// These are all messages that are older than the request, except those for the next turn. seq is the record of the
// request.
func (t *txn) dropIncluded(seq uint64) {
	over := func(h machine.RequiredMessage) bool { return h.Seq < seq && !h.Later }
	if slices.ContainsFunc(t.s.RequiredMessages, over) {
		t.s.RequiredMessages = slices.DeleteFunc(slices.Clone(t.s.RequiredMessages), over)
	}
	if len(t.s.RequiredMessages) == 0 {
		t.s.RequiredMessages = nil
	}
}

// checkRequiredIncluded returns an error if a model request does not contain all required messages (steering messages
// and notices). Messages for the next turn are not required yet. The error names the records of the missing messages.
func (t *txn) checkRequiredIncluded(r *machine.ModelRequest) error {
	var missing []string
	for _, h := range t.s.RequiredMessages {
		if !h.Later && !slices.Contains(r.IncludedSeqs, h.Seq) {
			missing = append(missing, strconv.FormatUint(h.Seq, 10))
		}
	}
	if missing == nil {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "STEERING_MISSING", Field: "request.messages", Allowed: missing,
		Message: fmt.Sprintf("the request lacks messages that it must contain: add a message `included_seq` for each of the records %s", missing),
	}
}

// copySteering adds the steering messages that the source of a fork had not used yet, so that the copy uses them.
func (t *txn) copySteering(queued []machine.QueuedInput) {
	for _, q := range queued {
		if q.Steer != "" {
			t.addRequiredMessage(machine.RequiredMessage{Seq: t.record(&machine.Steered{Text: q.Steer, When: machine.NextModelCall})})
		}
	}
}
