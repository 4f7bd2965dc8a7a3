package conversation

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// preparation is one request on its way to be stamped.
type preparation struct {
	past  *history.Reader
	key   machine.RunKey
	state *machine.State
	out   *machine.ModelRequest
	// talk is the conversation that the turn sees, once it was read.
	talk []machine.Message
	read bool
}

// Prepare finds what a command about calls of models refers to; every other is given back
// as it is. The error is a *[machine.Refusal], or that of a read.
func Prepare(ctx context.Context, past *history.Reader, key machine.RunKey, s *machine.State, c machine.Command) (_ machine.Command, err error) {
	out := c
	switch cmd := c.(type) {
	case machine.RequestModel:
		if !s.Status.Terminal() {
			cmd.Model, err = prepare(ctx, past, key, s, &cmd)
			out = cmd
		}
	case machine.AnswerModel:
		cmd.Usage.Model, err = told(ctx, past, key, s, &cmd)
		out = cmd
	}
	if err != nil {
		return c, err
	}
	return out, nil
}

// told is the model whose call is told of: the one that was asked, whatever the provider
// calls the one that answered. Of a visit that is over the machine knows no step, so that
// what is told of one is held against the records.
func told(ctx context.Context, past *history.Reader, key machine.RunKey, s *machine.State, cmd *machine.AnswerModel) (string, error) {
	if cmd.Step == 0 || cmd.Step > s.LastStep {
		return cmd.Usage.Model, nil // the machine's to refuse
	}
	step, err := past.FindStep(ctx, key, s, cmd.Step)
	switch {
	case err != nil:
		return "", err
	case step.Model == nil:
		return "", &machine.Refusal{
			Code: machine.CodeFailedPrecondition, Reason: "STEP_KIND", Field: "step",
			Message: fmt.Sprintf("step %d calls the tool %q, no model", cmd.Step, step.Tool),
		}
	case cmd.Attempt > step.Attempt:
		return "", &machine.Refusal{
			Code: machine.CodeInvalidArgument, Reason: "NO_SUCH_ATTEMPT", Field: "attempt",
			Message: fmt.Sprintf("step %d came to attempt %d", cmd.Step, step.Attempt), Limit: int64(step.Attempt), Got: int64(cmd.Attempt),
		}
	}
	return step.Tool, nil
}

// prepare fills in where the things are that a request refers to by number, and its
// digests. Steps, answers and results come with their Step alone, texts that are set with
// their Hash.
func prepare(ctx context.Context, past *history.Reader, key machine.RunKey, s *machine.State, c *machine.RequestModel) (*machine.ModelRequest, error) {
	asked := c.Model
	out := *asked
	p := &preparation{past: past, key: key, state: s, out: &out}
	if err := p.follow(ctx); err != nil {
		return nil, err
	}
	if err := p.texts(); err != nil {
		return nil, err
	}
	out.Messages = nil
	for i := range asked.Messages {
		if err := p.message(ctx, fmt.Sprintf("request.messages[%d]", i), asked.Messages[i]); err != nil {
			return nil, err
		}
	}
	if err := p.hear(ctx, c); err != nil {
		return nil, err
	}
	out.Hash = digest(&out)
	return &out, nil
}

// Text is a text that is set, perhaps to nothing.
func Text(text string) machine.ModelText {
	return machine.ModelText{Hash: sha256.Sum256([]byte(text)), Text: text}
}

// nothing is the hash of a text that was set to nothing.
var nothing = sha256.Sum256(nil)

// follow takes over what the followed step asked.
func (p *preparation) follow(ctx context.Context) error {
	step := p.out.Follows.Step
	if step == 0 {
		return nil
	}
	said, err := p.said("request.previous_step", step, true)
	if err != nil {
		return err
	}
	base, _, err := p.past.Asked(ctx, p.key, said)
	if err != nil {
		return err
	}
	answer, err := p.past.Answered(ctx, p.key, said)
	if err != nil {
		return err
	}
	p.out.Follows, p.out.Thread = said, next(base.Thread, &answer)
	p.out.System = inherited(p.out.System, base.System, said.Request)
	p.out.Tools = inherited(p.out.Tools, base.Tools, said.Request)
	p.out.Parameters = inherited(p.out.Parameters, base.Parameters, said.Request)
	return nil
}

// inherited is the request's own text, if it is set, else that of the record seq.
func inherited(own, base machine.ModelText, seq uint64) machine.ModelText {
	if own.Hash != ([32]byte{}) || base.Hash == ([32]byte{}) {
		return own
	}
	if base.Seq == 0 {
		base.Seq = seq
	}
	base.Text = ""
	return base
}

// texts checks those that are set and leaves out those that a record has.
func (p *preparation) texts() error {
	for _, t := range []struct {
		field string
		text  *machine.ModelText
		json  bool
	}{
		{"request.system", &p.out.System, false}, {"request.tools_json", &p.out.Tools, true}, {"request.parameters_json", &p.out.Parameters, true},
	} {
		if t.text.Hash == nothing {
			*t.text = machine.ModelText{}
		}
		if t.text.Hash == ([32]byte{}) || t.text.Seq != 0 {
			continue
		}
		if t.json {
			if err := validate.CheckJSON(t.field, []byte(t.text.Text)); err != nil {
				return err
			}
		}
		known := slices.IndexFunc(p.state.Texts, func(k machine.KnownText) bool { return k.Hash == t.text.Hash })
		if known >= 0 {
			t.text.Seq, t.text.Text = p.state.Texts[known].Seq, ""
		}
	}
	return nil
}

// message takes one element of the request.
func (p *preparation) message(ctx context.Context, field string, m machine.ModelMessage) error {
	var err error
	switch {
	case m.Message != nil:
		err = validate.CheckMessage(field+".message", m.Message)
	case m.Talk != nil:
		if m.Talk, err = p.among(ctx, field+".conversation", m.Talk); m.Talk == nil {
			return err
		}
	case m.Answer != nil:
		var said machine.Said
		said, err = p.said(field+".answer", m.Answer.Step, true)
		m.Answer = &said
	case m.Result != nil:
		var said machine.Said
		said, err = p.said(field+".result.step", m.Result.Said.Step, false)
		m.Result = &machine.ToolResult{Said: said, CallID: m.Result.CallID}
	case m.Heed != 0:
		err = p.heed(ctx, field+".included_seq", m.Heed)
	}
	if err != nil {
		return err
	}
	meant, err := p.meant(ctx, &m)
	if err != nil {
		return err
	}
	for i := range meant {
		p.out.Thread = next(p.out.Thread, &meant[i])
	}
	p.out.Messages = append(p.out.Messages, m)
	return nil
}

// meant reads what an element stands for, the conversation once.
func (p *preparation) meant(ctx context.Context, m *machine.ModelMessage) ([]machine.Message, error) {
	if m.Talk != nil {
		return p.talk[m.Talk.First : m.Talk.First+m.Talk.Count], nil
	}
	return p.past.Meant(ctx, p.key, m)
}

// among is a range of the conversation that the turn sees; nil: it is empty.
func (p *preparation) among(ctx context.Context, field string, r *machine.TalkRange) (*machine.TalkRange, error) {
	window := machine.Conversation{State: p.state.Current}
	for _, c := range p.state.Conversations {
		if c.State == p.state.Current {
			window = c
		}
	}
	if !p.read {
		talk, err := p.past.Conversation(ctx, p.key, window)
		if err != nil {
			return nil, err
		}
		p.talk, p.read = talk, true
	}
	count := r.Count
	if count == 0 {
		count = len(p.talk) - r.First
	}
	if r.First < 0 || count < 0 || r.First+count > len(p.talk) {
		return nil, &machine.Refusal{
			Code: machine.CodeInvalidArgument, Reason: "CONVERSATION_RANGE", Field: field,
			Message: fmt.Sprintf("the turn sees %d messages", len(p.talk)), Limit: int64(len(p.talk)), Got: int64(r.First) + int64(r.Count),
		}
	}
	if count == 0 {
		return nil, nil
	}
	return &machine.TalkRange{State: window.State, From: window.From, Next: window.Next, First: r.First, Count: count}, nil
}

// said finds a step of the visit that is answered: a MODEL step, or one of a tool.
func (p *preparation) said(field string, step uint32, model bool) (machine.Said, error) {
	for i := range p.state.Steps {
		s := &p.state.Steps[i]
		if s.Step != step || (s.Model != nil) != model {
			continue
		}
		if s.Status == machine.StepStatusOK || !model && s.Status == machine.StepStatusError {
			return machine.Said{Step: step, Request: s.RequestSeq, Answer: s.AnswerSeq}, nil
		}
	}
	what := "tool step"
	if model {
		what = "call of a model"
	}
	return machine.Said{}, &machine.Refusal{
		Code: machine.CodeFailedPrecondition, Reason: "STEP_NOT_ANSWERED", Field: field,
		Message: fmt.Sprintf("step %d is no answered %s of this visit", step, what),
	}
}

// next is the digest of a thread that goes on with a message.
func next(thread [32]byte, m *machine.Message) [32]byte {
	b := validate.NewBody(machine.CmdRequestModel)
	defer b.Free()
	b.Bytes(thread[:])
	b.Messages([]machine.Message{*m})
	return b.Sum()
}

// digest is that of everything that a request says.
func digest(r *machine.ModelRequest) [32]byte {
	b := validate.NewBody(machine.CmdRequestModel)
	defer b.Free()
	b.Text(r.Model)
	b.Bytes(r.System.Hash[:])
	b.Bytes(r.Tools.Hash[:])
	b.Bytes(r.Parameters.Hash[:])
	b.Bytes(r.Thread[:])
	return b.Sum()
}
