package timetravel

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// originSeq is the record of a fork that contains all copied data.
const originSeq = 1

// taken copies the steps of the source with new numbers. It changes the references in model requests
// from records of the source to records of the copy, because a copy never reads its source.
func (r *Service) taken(ctx context.Context, source runtime.RunKey, from *machine.State, views []history.StepView) ([]machine.TakenStep, error) {
	numbers := make(map[uint32]uint32, len(views))
	for i, v := range views {
		numbers[v.Step] = uint32(i) + 1
	}
	said := func(s machine.StepRef) machine.StepRef {
		return machine.StepRef{Step: numbers[s.Step], Request: originSeq, Answer: originSeq}
	}
	held := make(map[[32]byte]bool)
	var steps []machine.TakenStep
	for i, v := range views {
		step := machine.TakenStep{Step: uint32(i) + 1, Payload: v.Payload, Result: v.Result, Error: v.Error, Answer: v.Recorded.Model}
		step.Before = from.Turn != nil && v.TurnSeq != from.Turn.Seq
		if v.Request != nil {
			asked, err := r.spelled(ctx, source, renamed(v.Request, said))
			if err != nil {
				return nil, err
			}
			for _, text := range []*machine.ModelText{&asked.System, &asked.Tools, &asked.Parameters} {
				if err := r.takeText(ctx, source, text, held); err != nil {
					return nil, err
				}
			}
			step.Request = asked
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// takeText stores a text of the source in the copy. Each text is stored once.
func (r *Service) takeText(ctx context.Context, source runtime.RunKey, text *machine.ModelText, held map[[32]byte]bool) (err error) {
	switch {
	case text.Hash == [32]byte{}:
	case held[text.Hash]:
		text.Text, text.Seq = "", originSeq
	default:
		text.Text, err = r.cfg.Past.Text(ctx, source, *text)
		text.Seq, held[text.Hash] = 0, true
	}
	return err
}

// spelled replaces references to included messages by the messages, because the copy has no record
// of them.
func (r *Service) spelled(ctx context.Context, source runtime.RunKey, asked *machine.ModelRequest) (*machine.ModelRequest, error) {
	asked.IncludedSeqs = nil
	for i := range asked.Messages {
		if asked.Messages[i].IncludedSeq == 0 {
			continue
		}
		meant, err := r.cfg.Past.Meant(ctx, source, &asked.Messages[i])
		if err != nil {
			return nil, err
		}
		asked.Messages[i] = machine.ModelMessage{Message: &meant[0]}
	}
	return asked, nil
}

// renamed returns a request whose references are changed to records of the copy. In the copy, the
// conversation is one row.
func renamed(in *machine.ModelRequest, said func(machine.StepRef) machine.StepRef) *machine.ModelRequest {
	out := *in
	if out.PreviousStep.Step != 0 {
		out.PreviousStep = said(out.PreviousStep)
	}
	out.Messages = nil
	for _, m := range in.Messages {
		switch {
		case m.Conversation != nil:
			m.Conversation = &machine.ConversationRange{State: m.Conversation.State, Next: 1, First: m.Conversation.First, Count: m.Conversation.Count}
		case m.Answer != nil:
			answer := said(*m.Answer)
			m.Answer = &answer
		case m.Result != nil:
			m.Result = &machine.ToolResult{AnsweredStep: said(m.Result.AnsweredStep), CallID: m.Result.CallID}
		}
		out.Messages = append(out.Messages, m)
	}
	return &out
}
