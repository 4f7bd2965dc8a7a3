package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Body reads the body of one record.
func (r *Reader) Body(ctx context.Context, key machine.RunKey, seq uint64) (machine.Body, error) {
	rec, err := r.Record(ctx, key, seq)
	return rec.Body, err
}

// Record reads one record. It returns an error if the values of the run were erased. Error: [machine.ErrNoRecord].
func (r *Reader) Record(ctx context.Context, key machine.RunKey, seq uint64) (machine.Record, error) {
	entry, err := r.store.Entry(ctx, key.Namespace, key.ID, seq)
	if err == nil {
		err = entry.CheckNotErased()
	}
	if err != nil {
		return machine.Record{}, fmt.Errorf("runtime: read record %d of run %s: %w", seq, key.ID, err)
	}
	if seq < entry.First || seq-entry.First >= uint64(len(entry.Records)) {
		return machine.Record{}, fmt.Errorf("runtime: run %s: the entry of record %d begins with %d: %w", key.ID, seq, entry.First, machine.ErrNoRecord)
	}
	return entry.Records[seq-entry.First], nil
}

// Variables returns the variables with which a run was started or forked, as a JSON object. The caller must not change
// the returned bytes.
func (r *Reader) Variables(ctx context.Context, key machine.RunKey) ([]byte, error) {
	if held, ok := r.variables.get(key); ok {
		return held, nil
	}
	first, err := r.First(ctx, key)
	if err != nil {
		return nil, err
	}
	raw, _, _ := StartedWith(first.Command)
	r.variables.keep(key, raw)
	return raw, nil
}

// First returns the input that created a run. It returns an error if the values of the run were erased.
func (r *Reader) First(ctx context.Context, key machine.RunKey) (*machine.Input, error) {
	first, err := r.firstEntry(ctx, key)
	if err == nil {
		err = first.CheckNotErased()
	}
	return &first.Input, err
}

// RemainingInput returns what is left of the input that created a run whose values were erased.
func (r *Reader) RemainingInput(ctx context.Context, key machine.RunKey) (*machine.Input, error) {
	first, err := r.firstEntry(ctx, key)
	return &first.Input, err
}

func (r *Reader) firstEntry(ctx context.Context, key machine.RunKey) (machine.Entry, error) {
	first, err := r.store.Entry(ctx, key.Namespace, key.ID, 1)
	if errors.Is(err, machine.ErrNoRecord) {
		return first, NotFoundError(err)
	}
	if err != nil {
		return first, fmt.Errorf("runtime: read record 1 of run %s: %w", key.ID, err)
	}
	return first, nil
}

// StartedWith returns the variables of a command that creates a run ({} if there are none), its input, and the
// requested wall time.
func StartedWith(c machine.Command) (variables []byte, input []machine.Part, wall time.Duration) {
	switch c := c.(type) {
	case machine.Start:
		variables, input, wall = c.Variables, c.Input, c.MaxWallTime
	case machine.Fork:
		variables, wall = c.Variables, c.MaxWallTime
	}
	if len(variables) == 0 {
		variables = []byte("{}")
	}
	return variables, input, wall
}

// Conversation reads the messages in a range of rows of a state's conversation.
func (r *Reader) Conversation(ctx context.Context, key machine.RunKey, window machine.Conversation) ([]machine.Message, error) {
	rows, err := r.store.MessageRows(ctx, key.Namespace, key.ID, window.State, window.From, window.Next)
	if err != nil {
		return nil, fmt.Errorf("runtime: messages of run %s: %w", key.ID, err)
	}
	var messages []machine.Message
	for _, row := range rows {
		body, err := r.Body(ctx, key, row.Seq)
		if err != nil {
			return nil, err
		}
		if done, ok := body.(*machine.TurnCompleted); ok && done.ConversationThrough.Step != 0 {
			turnMessages, err := r.turnMessages(ctx, key, done.TurnSeq, done.ConversationThrough)
			if err != nil {
				return nil, err
			}
			messages = append(append(messages, turnMessages...), done.Messages...)
			continue
		}
		if stopped, ok := body.(*machine.Stopped); ok {
			turnMessages, err := r.stoppedTurnMessages(ctx, key, stopped)
			if err != nil {
				return nil, err
			}
			messages = append(messages, turnMessages...)
			continue
		}
		messages = append(messages, messagesOf(body, window.State)...)
	}
	return messages, nil
}

// messagesOf returns the messages that a record adds to the conversation of a state. If a turn has an output but no
// messages, the output becomes one message of the assistant.
func messagesOf(body machine.Body, state string) []machine.Message {
	switch b := body.(type) {
	case *machine.InputReceived:
		return []machine.Message{{Role: "user", Parts: b.Parts, Envelope: b.Envelope}}
	case *machine.Steered:
		return []machine.Message{userMessage(b.Text)}
	case *machine.TurnCompleted:
		if len(b.Messages) == 0 && len(b.Output) > 0 {
			return []machine.Message{{Role: "assistant", Parts: b.Output}}
		}
		return b.Messages
	case *machine.Origin:
		for i := range b.Conversations {
			if b.Conversations[i].State == state {
				return b.Conversations[i].Messages
			}
		}
	}
	return nil
}
