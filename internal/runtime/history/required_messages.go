package history

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// RequiredText returns the text of a record that later model requests must contain: a steering message (sent by a
// person to an active run) or a notice of the sidecar. For other records it returns false.
func RequiredText(body machine.Body) (text string, ok bool) {
	switch b := body.(type) {
	case *machine.Steered:
		return b.Text, true
	case *machine.NoticeAdded:
		return b.Text, true
	}
	return "", false
}

func userMessage(text string) machine.Message {
	return machine.Message{Role: "user", Parts: []machine.Part{{Kind: machine.PartText, Text: text}}}
}

// stoppedTurnMessages returns the messages of a turn that a person stopped. It adds a result for each call in the last
// answer of the model: the recorded result of the step, or an error that says that the call was cancelled.
func (r *Reader) stoppedTurnMessages(ctx context.Context, key machine.RunKey, stopped *machine.Stopped) ([]machine.Message, error) {
	messages, err := r.turnMessages(ctx, key, stopped.TurnSeq, stopped.ConversationThrough)
	if err != nil {
		return nil, err
	}
	last, err := r.Answer(ctx, key, stopped.ConversationThrough.Step, stopped.ConversationThrough.Answer)
	if err != nil {
		return nil, err
	}
	for i, said := range stopped.Calls {
		answer := Recorded{Error: machine.CancelledFault}
		if said.Answer != 0 {
			if answer, err = r.Answer(ctx, key, said.Step, said.Answer); err != nil {
				return nil, err
			}
		}
		messages = append(messages, ResultMessage(last.Model.Calls[i].ID, &answer))
	}
	return messages, nil
}
