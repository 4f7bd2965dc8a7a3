package timetravel

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// originSeq is the seq of a fork's Origin record, which contains all copied data.
const originSeq = 1

// copyAnswers copies the answered steps of the source with new numbers. References in model requests to
// records of the source become references to records of the copy, because a copy never reads its
// source.
func (r *Service) copyAnswers(ctx context.Context, source runtime.RunKey, from *machine.State, views []history.StepView) ([]machine.TakenStep, error) {
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
			request, err := r.inlineReferences(ctx, source, renameReferences(v.Request, said))
			if err != nil {
				return nil, err
			}
			for _, text := range []*machine.ModelText{&request.System, &request.Tools, &request.Parameters} {
				if err := r.takeText(ctx, source, text, held); err != nil {
					return nil, err
				}
			}
			step.Request = request
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// takeText makes a text of the source part of the copy. A text that is used several times is stored
// once.
func (r *Service) takeText(ctx context.Context, source runtime.RunKey, text *machine.ModelText, held map[[32]byte]bool) (err error) {
	switch {
	case text.Hash == [32]byte{}: // the request has no text of this kind
	case held[text.Hash]:
		text.Text, text.Seq = "", originSeq
	default:
		text.Text, err = r.cfg.Past.Text(ctx, source, *text)
		text.Seq, held[text.Hash] = 0, true
	}
	return err
}

// inlineReferences replaces references to steering messages (of people) and notices (of the sidecar) by the
// messages themselves, because the copy has no records of them.
func (r *Service) inlineReferences(ctx context.Context, source runtime.RunKey, asked *machine.ModelRequest) (*machine.ModelRequest, error) {
	asked.IncludedSeqs = nil
	for i := range asked.Messages {
		if asked.Messages[i].IncludedSeq == 0 {
			continue
		}
		meant, err := r.cfg.Past.ElementMessages(ctx, source, &asked.Messages[i])
		if err != nil {
			return nil, err
		}
		asked.Messages[i] = machine.ModelMessage{Message: &meant[0]}
	}
	return asked, nil
}

// renameReferences returns a model request whose references are changed to records of the copy. In the copy,
// each conversation is one row.
func renameReferences(in *machine.ModelRequest, said func(machine.StepRef) machine.StepRef) *machine.ModelRequest {
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
