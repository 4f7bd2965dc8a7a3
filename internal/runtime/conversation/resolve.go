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

// resolution is the state while one model request is resolved.
type resolution struct {
	history  *history.Reader
	key      machine.RunKey
	state    *machine.State
	resolved *machine.ModelRequest
	// conversation is the conversation that the turn sees. It is read from the store when it is first needed. read
	// reports whether it was read.
	conversation []machine.Message
	read         bool
}

// Resolve resolves the references in a command about a model call. Other commands, and a model request to a run that has ended, are
// returned unchanged. The error is a *[machine.Error] or a read error.
func Resolve(ctx context.Context, past *history.Reader, key machine.RunKey, s *machine.State, c machine.Command) (_ machine.Command, err error) {
	out := c
	switch cmd := c.(type) {
	case machine.RequestModel:
		if !s.Status.Terminal() {
			cmd.Model, err = resolveRequest(ctx, past, key, s, &cmd)
			out = cmd
		}
	case machine.AnswerModel:
		cmd.Usage.Model, err = calledModel(ctx, past, key, s, &cmd)
		out = cmd
	}
	if err != nil {
		return c, err
	}
	return out, nil
}

// calledModel returns the model of a call whose outcome is reported. It is the requested model, because the provider may report another
// name. The state does not contain the steps of earlier visits, so calledModel looks the step up in the records. The Tool of a model call
// is the name of the model.
func calledModel(ctx context.Context, past *history.Reader, key machine.RunKey, s *machine.State, cmd *machine.AnswerModel) (string, error) {
	if cmd.Step == 0 || cmd.Step > s.LastStep {
		return cmd.Usage.Model, nil // the run has no such step, so the rules refuse the report
	}
	step, err := past.FindStep(ctx, key, s, cmd.Step)
	switch {
	case err != nil:
		return "", err
	case step.Model == nil:
		return "", &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "STEP_KIND", Field: "step",
			Message: fmt.Sprintf("step %d calls the tool %q, no model", cmd.Step, step.Tool),
		}
	case cmd.Attempt > step.Attempt:
		return "", &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "NO_SUCH_ATTEMPT", Field: "attempt",
			Message: fmt.Sprintf("step %d came to attempt %d", cmd.Step, step.Attempt), Limit: int64(step.Attempt), Got: int64(cmd.Attempt),
		}
	}
	return step.Tool, nil
}

// resolveRequest completes a model request: it adds the digests and the seqs of the records that the request refers to.
// In the given request, a reference to a step, answer or result has only its Step, and a text has only its Hash.
func resolveRequest(ctx context.Context, past *history.Reader, key machine.RunKey, s *machine.State, c *machine.RequestModel) (*machine.ModelRequest, error) {
	model := c.Model
	out := *model
	p := &resolution{history: past, key: key, state: s, resolved: &out}
	if err := p.copySettings(ctx); err != nil {
		return nil, err
	}
	if err := p.texts(); err != nil {
		return nil, err
	}
	out.Messages = nil
	for i := range model.Messages {
		if err := p.message(ctx, fmt.Sprintf("request.messages[%d]", i), model.Messages[i]); err != nil {
			return nil, err
		}
	}
	if err := p.includeRequired(ctx, c); err != nil {
		return nil, err
	}
	out.Hash = digest(&out)
	return &out, nil
}

// Text returns a [machine.ModelText] with the given text, which may be "".
func Text(text string) machine.ModelText {
	return machine.ModelText{Hash: sha256.Sum256([]byte(text)), Text: text}
}

// emptyHash is the hash of the empty text.
var emptyHash = sha256.Sum256(nil)

// copySettings copies the settings (system prompt, tools and parameters) that the request does not set from the request of its previous
// step. The thread of the request continues after the answer to that step.
func (p *resolution) copySettings(ctx context.Context) error {
	step := p.resolved.PreviousStep.Step
	if step == 0 {
		return nil
	}
	previous, err := p.answeredStep("request.previous_step", step, true)
	if err != nil {
		return err
	}
	base, _, err := p.history.ModelRequest(ctx, p.key, previous)
	if err != nil {
		return err
	}
	answer, err := p.history.AnswerMessage(ctx, p.key, previous)
	if err != nil {
		return err
	}
	p.resolved.PreviousStep, p.resolved.Thread = previous, next(base.Thread, &answer)
	p.resolved.System = inheritText(p.resolved.System, base.System, previous.Request)
	p.resolved.Tools = inheritText(p.resolved.Tools, base.Tools, previous.Request)
	p.resolved.Parameters = inheritText(p.resolved.Parameters, base.Parameters, previous.Request)
	return nil
}

// inheritText returns the request's own text if it is set. Otherwise it returns a reference to the text base, which an
// earlier request in the record seq contains.
func inheritText(own, base machine.ModelText, seq uint64) machine.ModelText {
	if own.Hash != ([32]byte{}) || base.Hash == ([32]byte{}) {
		return own
	}
	if base.Seq == 0 {
		base.Seq = seq
	}
	base.Text = ""
	return base
}

// texts checks the texts of the request. An empty text becomes an unset one, after copySettings has run, so it replaces the text of the
// previous step. A text that a record already contains is replaced by a reference to the record.
func (p *resolution) texts() error {
	for _, t := range []struct {
		field string
		text  *machine.ModelText
		json  bool
	}{
		{"request.system", &p.resolved.System, false}, {"request.tools_json", &p.resolved.Tools, true}, {"request.parameters_json", &p.resolved.Parameters, true},
	} {
		if t.text.Hash == emptyHash {
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
		known := slices.IndexFunc(p.state.Texts, func(k machine.TextRef) bool { return k.Hash == t.text.Hash })
		if known >= 0 {
			t.text.Seq, t.text.Text = p.state.Texts[known].Seq, ""
		}
	}
	return nil
}

// message resolves one element of the request and appends it to the result. An empty range of the conversation is left out.
func (p *resolution) message(ctx context.Context, field string, m machine.ModelMessage) error {
	var err error
	switch {
	case m.Message != nil:
		err = validate.CheckMessage(field+".message", m.Message)
	case m.Conversation != nil:
		if m.Conversation, err = p.checkRange(ctx, field+".conversation", m.Conversation); m.Conversation == nil {
			return err
		}
	case m.Answer != nil:
		var stepRef machine.StepRef
		stepRef, err = p.answeredStep(field+".answer", m.Answer.Step, true)
		m.Answer = &stepRef
	case m.Result != nil:
		var stepRef machine.StepRef
		stepRef, err = p.answeredStep(field+".result.step", m.Result.AnsweredStep.Step, false)
		m.Result = &machine.ToolResult{AnsweredStep: stepRef, CallID: m.Result.CallID}
	case m.IncludedSeq != 0:
		err = p.checkIncluded(ctx, field+".included_seq", m.IncludedSeq)
	}
	if err != nil {
		return err
	}
	meant, err := p.elementMessages(ctx, &m)
	if err != nil {
		return err
	}
	for i := range meant {
		p.resolved.Thread = next(p.resolved.Thread, &meant[i])
	}
	p.resolved.Messages = append(p.resolved.Messages, m)
	return nil
}

// elementMessages returns the messages that an element of the request stands for. The conversation is read from the store only
// once.
func (p *resolution) elementMessages(ctx context.Context, m *machine.ModelMessage) ([]machine.Message, error) {
	if m.Conversation != nil {
		return p.conversation[m.Conversation.First : m.Conversation.First+m.Conversation.Count], nil
	}
	return p.history.ElementMessages(ctx, p.key, m)
}

// checkRange checks a range of the conversation that the turn sees, and returns it with its rows. A Count of 0 means all messages from
// First on. checkRange returns nil if the range is empty.
func (p *resolution) checkRange(ctx context.Context, field string, r *machine.ConversationRange) (*machine.ConversationRange, error) {
	window := machine.Conversation{State: p.state.Current}
	for _, c := range p.state.Conversations {
		if c.State == p.state.Current {
			window = c
		}
	}
	if !p.read {
		talk, err := p.history.Conversation(ctx, p.key, window)
		if err != nil {
			return nil, err
		}
		p.conversation, p.read = talk, true
	}
	count := r.Count
	if count == 0 {
		count = len(p.conversation) - r.First
	}
	if r.First < 0 || count < 0 || r.First+count > len(p.conversation) {
		return nil, &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "CONVERSATION_RANGE", Field: field,
			Message: fmt.Sprintf("the turn sees %d messages", len(p.conversation)), Limit: int64(len(p.conversation)), Got: int64(r.First) + int64(r.Count),
		}
	}
	if count == 0 {
		return nil, nil
	}
	return &machine.ConversationRange{State: window.State, From: window.From, Next: window.Next, First: r.First, Count: count}, nil
}

// answeredStep returns a reference to an answered step of the visit. If model is true, the step must be a model call,
// otherwise a tool step.
func (p *resolution) answeredStep(field string, step uint32, model bool) (machine.StepRef, error) {
	for i := range p.state.Steps {
		s := &p.state.Steps[i]
		if s.Step != step || (s.Model != nil) != model {
			continue
		}
		if s.Status == machine.StepStatusOK || !model && s.Status == machine.StepStatusError {
			return machine.StepRef{Step: step, Request: s.RequestSeq, Answer: s.AnswerSeq}, nil
		}
	}
	what := "tool step"
	if model {
		what = "call of a model"
	}
	return machine.StepRef{}, &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "STEP_NOT_ANSWERED", Field: field,
		Message: fmt.Sprintf("step %d is no answered %s of this visit", step, what),
	}
}

// next returns the digest of a conversation after the message m was added. thread is the digest of the conversation
// without m.
func next(thread [32]byte, m *machine.Message) [32]byte {
	b := validate.NewBody(machine.CmdRequestModel)
	defer b.Free()
	b.Bytes(thread[:])
	b.Messages([]machine.Message{*m})
	return b.Sum()
}

// digest returns the digest of a resolved model request.
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
