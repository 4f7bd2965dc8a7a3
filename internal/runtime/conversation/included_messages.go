package conversation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// includeRequired lists the required messages that the request contains. If the request asks for it,
// includeRequired also adds the missing ones. If the step of the request is already answered,
// includeRequired adds the messages of the recorded request, because both requests must be equal.
func (p *resolution) includeRequired(ctx context.Context, c *machine.RequestModel) error {
	if c.IncludeRequired {
		seqs, err := p.due(ctx, c)
		if err != nil {
			return err
		}
		for _, seq := range seqs {
			if err := p.message(ctx, "request", machine.ModelMessage{IncludedSeq: seq}); err != nil {
				return err
			}
		}
	}
	p.out.IncludedSeqs = nil
	for _, h := range p.state.RequiredMessages {
		in, err := p.contains(ctx, h)
		if err != nil {
			return err
		}
		if in {
			p.out.IncludedSeqs = append(p.out.IncludedSeqs, h.Seq)
		}
	}
	return nil
}

// due returns the record numbers of the required messages that the request does not contain yet.
func (p *resolution) due(ctx context.Context, c *machine.RequestModel) (seqs []uint64, err error) {
	if step := rules.Round(p.state, c); step != nil && step.Status == machine.StepStatusOK {
		return p.recorded(ctx, step)
	}
	for _, h := range p.state.RequiredMessages {
		in, err := p.contains(ctx, h)
		if err != nil {
			return nil, err
		}
		if !in && !h.Later {
			seqs = append(seqs, h.Seq)
		}
	}
	return seqs, nil
}

// recorded returns the records that the recorded request of an answered step includes, but this request
// does not.
func (p *resolution) recorded(ctx context.Context, step *machine.ToolStep) (seqs []uint64, err error) {
	asked, _, err := p.past.ModelRequest(ctx, p.key, machine.StepRef{Step: step.Step, Request: step.RequestSeq})
	if err != nil {
		return nil, err
	}
	for i := range asked.Messages {
		if seq := asked.Messages[i].IncludedSeq; seq != 0 && !p.has(seq) {
			seqs = append(seqs, seq)
		}
	}
	return seqs, nil
}

func (p *resolution) has(seq uint64) bool {
	return slices.ContainsFunc(p.out.Messages, func(m machine.ModelMessage) bool { return m.IncludedSeq == seq })
}

// contains reports whether the request refers to the message, or to the part of the conversation
// that contains it.
func (p *resolution) contains(ctx context.Context, h machine.RequiredMessage) (bool, error) {
	if h.Row == 0 || p.has(h.Seq) {
		return p.has(h.Seq), nil
	}
	window := machine.Conversation{State: p.state.Current}
	for _, c := range p.state.Conversations {
		if c.State == p.state.Current {
			window = c
		}
	}
	window.Next = h.Row - 1
	before, err := p.past.Conversation(ctx, p.key, window)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(p.out.Messages, func(m machine.ModelMessage) bool {
		return m.Conversation != nil && m.Conversation.First <= len(before) && len(before) < m.Conversation.First+m.Conversation.Count
	}), nil
}

// checkIncluded checks that a record is a message that requests can include.
func (p *resolution) checkIncluded(ctx context.Context, field string, seq uint64) error {
	refused := &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "NO_SUCH_STEERING", Field: field, Message: fmt.Sprintf("record %d is not a message that a request can include", seq),
	}
	if seq > p.state.Seq {
		return refused
	}
	body, err := p.past.Body(ctx, p.key, seq)
	switch {
	case errors.Is(err, machine.ErrNoRecord):
		return refused
	case err != nil:
		return err
	}
	if _, ok := history.RequiredText(body); !ok {
		return refused
	}
	return nil
}

// IncludedMessage is a required message that a request includes.
type IncludedMessage struct {
	Seq  uint64
	Text string
}

// IncludedMessages returns the included messages of a request, in its order.
func IncludedMessages(ctx context.Context, past *history.Reader, key machine.RunKey, r *machine.ModelRequest) (messages []IncludedMessage, err error) {
	for i := range r.Messages {
		seq := r.Messages[i].IncludedSeq
		if seq == 0 {
			continue
		}
		body, err := past.Body(ctx, key, seq)
		if err != nil {
			return nil, err
		}
		text, _ := history.RequiredText(body)
		messages = append(messages, IncludedMessage{Seq: seq, Text: text})
	}
	return messages, nil
}
