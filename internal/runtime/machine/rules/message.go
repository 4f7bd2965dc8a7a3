package rules

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// sendInput opens the next turn of the visit with the input. If a turn is open, it queues the input for the next turn.
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
	seq := t.record(&machine.InputReceived{Parts: c.Parts, MessageID: t.in.ID, Queued: queued, Envelope: c.Envelope})
	t.s.MessageBytes += size
	t.s.Queue = append(slices.Clip(t.s.Queue), seq)
	if !queued {
		t.nextTurn()
	}
	return nil
}

// checkQueue bounds the inputs that are queued while a turn is open.
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

// nextTurn opens a further turn of the visit with all queued inputs.
func (t *txn) nextTurn() {
	t.queueSteering()
	seq := t.record(&machine.TurnOpened{State: t.s.Current, Inputs: t.s.Queue})
	t.openTurn(seq)
	t.drainQueue()
}

// drainQueue adds the queued inputs to the conversation of the current state.
func (t *txn) drainQueue() {
	for _, seq := range t.s.Queue {
		t.addMessage(seq)
		t.placed(seq)
	}
	t.s.Queue = nil
}

// addMessage adds a message row for the record seq.
func (t *txn) addMessage(seq uint64) {
	c := t.conversation(t.s.Current)
	t.messages = append(t.messages, machine.MessageRow{State: c.State, N: c.Next, Seq: seq})
	c.Next++
}

// resetConversation makes the next visit begin without the messages of earlier visits.
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

// conversation returns the conversation window of a state, for modification.
func (t *txn) conversation(state string) *machine.Conversation {
	if !t.own.conversations {
		t.s.Conversations, t.own.conversations = slices.Clone(t.s.Conversations), true
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
