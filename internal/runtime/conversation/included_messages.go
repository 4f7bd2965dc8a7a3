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

// includeRequired finds out which required messages the request contains: steering messages of people,
// and notices of the sidecar. With IncludeRequired it also adds the missing ones. If the request was
// already answered, it adds the messages of the recorded request, because both requests must be equal.
func (p *resolution) includeRequired(ctx context.Context, c *machine.RequestModel) error {
	if c.IncludeRequired {
		seqs, err := p.dueMessages(ctx, c)
		if err != nil {
			return err
		}
		for _, seq := range seqs {
			if err := p.message(ctx, "request", machine.ModelMessage{IncludedSeq: seq}); err != nil {
				return err
			}
		}
	}
	p.resolved.IncludedSeqs = nil
	for _, h := range p.state.RequiredMessages {
		in, err := p.contains(ctx, h)
		if err != nil {
			return err
		}
		if in {
			p.resolved.IncludedSeqs = append(p.resolved.IncludedSeqs, h.Seq)
		}
	}
	return nil
}

// dueMessages returns the records of the messages that must be added to the request: required steering messages and notices. Those that
// are for a later request are left out.
func (p *resolution) dueMessages(ctx context.Context, c *machine.RequestModel) (seqs []uint64, err error) {
	if step := rules.Round(p.state, c); step != nil && step.Status == machine.StepStatusOK {
		return p.compareRecorded(ctx, step)
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

// compareRecorded compares a new request with the recorded request of an answered step. It returns the
// records of the required messages that only the recorded request contains.
func (p *resolution) compareRecorded(ctx context.Context, step *machine.ToolStep) (seqs []uint64, err error) {
	asked, _, err := p.history.ModelRequest(ctx, p.key, machine.StepRef{Step: step.Step, Request: step.RequestSeq})
	if err != nil {
		return nil, err
	}
	for i := range asked.Messages {
		if seq := asked.Messages[i].IncludedSeq; seq != 0 && !p.hasSeq(seq) {
			seqs = append(seqs, seq)
		}
	}
	return seqs, nil
}

func (p *resolution) hasSeq(seq uint64) bool {
	return slices.ContainsFunc(p.resolved.Messages, func(m machine.ModelMessage) bool { return m.IncludedSeq == seq })
}

// contains reports whether the request contains the required message h, directly or in the range of
// the conversation that the request refers to.
func (p *resolution) contains(ctx context.Context, h machine.RequiredMessage) (bool, error) {
	if h.Row == 0 || p.hasSeq(h.Seq) {
		return p.hasSeq(h.Seq), nil
	}
	window := machine.Conversation{State: p.state.Current}
	for _, c := range p.state.Conversations {
		if c.State == p.state.Current {
			window = c
		}
	}
	window.Next = h.Row - 1
	before, err := p.history.Conversation(ctx, p.key, window)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(p.resolved.Messages, func(m machine.ModelMessage) bool {
		return m.Conversation != nil && m.Conversation.First <= len(before) && len(before) < m.Conversation.First+m.Conversation.Count
	}), nil
}

// checkIncluded returns an error if the record seq does not contain a message that a request can
// include (a steering message or a notice).
func (p *resolution) checkIncluded(ctx context.Context, field string, seq uint64) error {
	refused := &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "NO_SUCH_STEERING", Field: field, Message: fmt.Sprintf("record %d is not a message that a request can include", seq),
	}
	if seq > p.state.Seq {
		return refused
	}
	body, err := p.history.Body(ctx, p.key, seq)
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

// IncludedMessage is a required message that a model request includes: a steering message of a person,
// or a notice of the sidecar.
type IncludedMessage struct {
	Seq  uint64
	Text string
}

// IncludedMessages returns the required messages (steering messages and notices) that a model request
// includes, in the order of the request.
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
