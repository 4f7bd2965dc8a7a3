package rules

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// This file handles the steering and the stopping of an active run (semantics §15). When a turn is
// stopped, every open model call and step gets an answer, so that every call in the conversation has an
// answer.

const whyByUser = "cancelled_by_user"

// steer applies a steering message. The next request to a model in the open turn must contain it. With SteerNow the open turn ends, and
// the next turn begins with the message.
func (t *txn) steer(c *machine.Steer) error {
	if err := First(t.checkOpen(), CheckSteer(c), t.checkMessageBytes(int64(len(c.Text))), t.checkSteeringQueue(c)); err != nil {
		return err
	}
	t.resetProgress()
	seq := t.record(&machine.Steered{Text: c.Text, When: c.When})
	t.s.MessageBytes += int64(len(c.Text))
	t.addRequiredMessage(machine.RequiredMessage{Seq: seq, Later: c.When == machine.NextTurn})
	if c.When == machine.SteerNow && t.busy() {
		t.putAway("")
	}
	if t.s.Turn == nil {
		t.nextTurn()
	}
	return nil
}

// stop ends the open turn. Then the run waits for an input. A run without a turn and without pending steps does not change.
func (t *txn) stop(c *machine.Stop) error {
	if err := t.checkOpen(); err != nil {
		return err
	}
	if !t.busy() {
		return nil
	}
	t.resetProgress()
	t.putAway(c.Note)
	t.drainQueue()
	return nil
}

// busy reports whether a turn is open or a step is pending.
func (t *txn) busy() bool { return t.s.Turn != nil || len(PendingSteps(t.s)) > 0 }

// checkSteeringQueue returns an error if too many steering messages and queued inputs wait.
func (t *txn) checkSteeringQueue(c *machine.Steer) error {
	limit, got := t.s.Limits.MaxQueuedInputs, len(t.s.Queue)+t.pendingSteering()
	if t.s.Turn == nil || c.When == machine.SteerNow || got < limit {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeResourceExhausted, Reason: "INPUT_QUEUE_FULL", Field: "text",
		Message: fmt.Sprintf("%d inputs wait to be heard", got), Limit: int64(limit), Got: int64(got) + 1,
	}
}

// addRequiredMessage adds a message that requests to models must contain.
func (t *txn) addRequiredMessage(h machine.RequiredMessage) {
	t.s.RequiredMessages = append(slices.Clip(t.s.RequiredMessages), h)
}

// notice records a notice that the next request to a model must contain. All rules that add notices
// call this function. If once is true, the notice is needed only in the open turn.
func (t *txn) notice(n machine.NoticeAdded, once bool) {
	t.addRequiredMessage(machine.RequiredMessage{Seq: t.record(&n), Notice: true, Once: once})
}

// putAway ends the open turn. It answers the model calls and steps of the turn, and adds the messages
// of the turn to the conversation.
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

// answerCancelled answers the pending steps of the visit as cancelled. If a step was already sent, its
// outcome is unknown.
func (t *txn) answerCancelled() {
	for i := range t.s.Steps {
		if t.s.Steps[i].Status != machine.StepStatusPending {
			continue
		}
		step := &t.steps()[i]
		if step.Delegation {
			t.callOff(step)
		}
		unsent := t.unsent(step)
		step.AnswerSeq = t.record(&machine.StepResolved{
			Step: step.Step, Tool: step.Tool, Attempt: step.Attempt, Error: machine.CancelledFault, Unknown: !unsent, Kind: t.recordedKind(step.Kind()),
			Usage: t.forgo(step),
		})
		step.Status, step.Deadline, step.Inquiry = machine.StepStatusError, 0, 0
		step.AnswerHash = answerHash(false, nil, machine.CancelledFault)
		if !unsent {
			t.doubt(step)
		}
		t.settleEffect(step)
		t.recordEffect(step)
	}
}

// lastAnswer returns the last answer of a model in the turn, and the steps of its calls.
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

// pendingSteering counts the steering messages that are not yet in the conversation or in an answered
// request.
func (t *txn) pendingSteering() (n int) {
	for _, h := range t.s.RequiredMessages {
		if !h.Notice && h.Row == 0 {
			n++
		}
	}
	return n
}

// queueSteering makes the unused steering messages inputs of the turn that is about to be opened. It
// leaves out the messages with which the previous turn began, because the conversation already contains
// them.
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

// placed records that the newest message of the conversation is now the message in the record seq.
func (t *txn) placed(seq uint64) {
	i := slices.IndexFunc(t.s.RequiredMessages, func(h machine.RequiredMessage) bool { return h.Seq == seq })
	if i < 0 {
		return
	}
	t.s.RequiredMessages = slices.Clone(t.s.RequiredMessages)
	t.s.RequiredMessages[i].Row = t.conversation(t.s.Current).Next
}

// dropIncluded removes the required messages that the answered request contained. seq is the record of
// this request. The request contained all messages that are older than the record.
func (t *txn) dropIncluded(seq uint64) {
	over := func(h machine.RequiredMessage) bool { return h.Seq < seq && !h.Later }
	if slices.ContainsFunc(t.s.RequiredMessages, over) {
		t.s.RequiredMessages = slices.DeleteFunc(slices.Clone(t.s.RequiredMessages), over)
	}
	if len(t.s.RequiredMessages) == 0 {
		t.s.RequiredMessages = nil
	}
}

// checkRequiredIncluded returns an error if a request does not contain all required messages. The error
// names the records of the missing messages.
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
		Message: fmt.Sprintf("the run was told something that the model has to hear: add a message `included_seq` for each of the records %s", missing),
	}
}

// copySteering adds the steering messages that the source of a fork had not used yet.
func (t *txn) copySteering(queued []machine.QueuedInput) {
	for _, q := range queued {
		if q.Steer != "" {
			t.addRequiredMessage(machine.RequiredMessage{Seq: t.record(&machine.Steered{Text: q.Steer, When: machine.NextModelCall})})
		}
	}
}
