package history

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// A model request refers to earlier messages by the seqs of their records. The functions below resolve these
// references. The result depends only on the records of the run.

// modelBytes returns the size of a model's answer, in bytes.
func modelBytes(a *machine.ModelAnswer) int64 {
	if a == nil {
		return 0
	}
	n := partsBytes(a.Parts) + len(a.Refusal) + len(a.Provider)
	for _, call := range a.Calls {
		n += len(call.ID) + len(call.Name) + len(call.Arguments) + len(call.Broken)
	}
	return int64(n)
}

// requestBytes returns the size of a model request in bytes, without the messages that it refers to.
func requestBytes(r *machine.ModelRequest) int64 {
	if r == nil {
		return 0
	}
	n := len(r.System.Text) + len(r.Tools.Text) + len(r.Parameters.Text)
	for i := range r.Messages {
		if m := r.Messages[i].Message; m != nil {
			n += partsBytes(m.Parts) + len(m.ToolCalls) + len(m.Provider)
		}
	}
	return int64(n)
}

func partsBytes(parts []machine.Part) (n int) {
	for i := range parts {
		n += len(parts[i].Text) + len(parts[i].Data) + len(parts[i].Metadata)
	}
	return n
}

// AnswerMessage returns the answer of a model as a message of a conversation.
func AnswerMessage(a *machine.ModelAnswer) machine.Message {
	m := machine.Message{Role: "assistant", Parts: a.Parts, Provider: a.Provider, Refusal: a.Refusal}
	if len(a.Calls) == 0 {
		return m
	}
	type call struct {
		ID        string `json:"id"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	calls := make([]call, len(a.Calls))
	for i, c := range a.Calls {
		calls[i] = call{c.ID, c.Name, c.Arguments}
	}
	m.ToolCalls = plainJSON(calls)
	return m
}

// ResultMessage returns the answer of a tool step as a message for the model that requested the call.
func ResultMessage(callID string, answer *Recorded) machine.Message {
	data := answer.Result
	if data == nil {
		type fault struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		}
		data = plainJSON(map[string]fault{"error": {Code: answer.Error.Code, Message: answer.Error.Message}})
	}
	return machine.Message{Role: "tool", ToolCallID: callID, Parts: []machine.Part{{Kind: machine.PartJSON, Data: data}}}
}

// plainJSON encodes v as JSON without HTML escapes.
func plainJSON(v any) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the encoded types contain only texts, so there is no error
	return bytes.TrimRight(out.Bytes(), "\n")
}

// ModelRequest reads the request of a model call. It also returns the seq of the turn that made the request. For a call that a fork
// copied, this is the seq of the record of the fork, or 0 if an earlier turn of the visit made the call. stepRef identifies the call.
func (r *Reader) ModelRequest(ctx context.Context, key machine.RunKey, stepRef machine.StepRef) (*machine.ModelRequest, uint64, error) {
	body, err := r.Body(ctx, key, stepRef.Request)
	if err != nil {
		return nil, 0, err
	}
	var request *machine.ModelRequest
	turn := stepRef.Request
	switch b := body.(type) {
	case *machine.StepRequested:
		request, turn = b.Model, b.TurnSeq
	case *machine.Origin:
		taken := takenStep(b, stepRef.Step)
		if request = taken.Request; taken.Before {
			turn = 0
		}
	}
	if request == nil {
		return nil, 0, fmt.Errorf("runtime: record %d of run %s is no request to a model: %w", stepRef.Request, key.ID, machine.ErrNoRecord)
	}
	return request, turn, nil
}

// AnswerMessage reads the answer of a model call as a message of a conversation. said identifies the call.
func (r *Reader) AnswerMessage(ctx context.Context, key machine.RunKey, said machine.StepRef) (machine.Message, error) {
	answer, err := r.Answer(ctx, key, said.Step, said.Answer)
	if err != nil {
		return machine.Message{}, err
	}
	if answer.Model == nil {
		return machine.Message{}, fmt.Errorf("runtime: record %d of run %s is no answer of a model: %w", said.Answer, key.ID, machine.ErrNoRecord)
	}
	return AnswerMessage(answer.Model), nil
}

// Text returns a text of a model request. If the request only refers to a record with the text, it reads the record.
func (r *Reader) Text(ctx context.Context, key machine.RunKey, text machine.ModelText) (string, error) {
	if text.Seq == 0 {
		return text.Text, nil
	}
	body, err := r.Body(ctx, key, text.Seq)
	if err != nil {
		return "", err
	}
	var requests []*machine.ModelRequest
	switch b := body.(type) {
	case *machine.StepRequested:
		requests = append(requests, b.Model)
	case *machine.Origin:
		for i := range b.Steps {
			requests = append(requests, b.Steps[i].Request)
		}
	}
	for _, request := range requests {
		if request == nil {
			continue
		}
		for _, t := range []machine.ModelText{request.System, request.Tools, request.Parameters} {
			if t.Hash == text.Hash && t.Seq == 0 {
				return t.Text, nil
			}
		}
	}
	return "", fmt.Errorf("runtime: record %d of run %s has not the text that is referred to: %w", text.Seq, key.ID, machine.ErrNoRecord)
}

// link is one model request in a chain of requests that continue each other, with the seq of the turn that made it.
type link struct {
	request *machine.ModelRequest
	turn    uint64
}

// chain returns a model request and all requests that it continues, the oldest first. If within is not 0, it returns
// only the requests of the turn with this seq.
func (r *Reader) chain(ctx context.Context, key machine.RunKey, last link, within uint64) ([]link, error) {
	links := []link{last}
	for follows := last.request.PreviousStep; follows.Step != 0; {
		request, turn, err := r.ModelRequest(ctx, key, follows)
		if err != nil {
			return nil, err
		}
		if within != 0 && turn != within {
			break
		}
		links, follows = append(links, link{request, turn}), request.PreviousStep
	}
	slices.Reverse(links)
	return links, nil
}

// Messages returns all messages of a model request, including those of the requests that it continues, the oldest
// first.
func (r *Reader) Messages(ctx context.Context, key machine.RunKey, request *machine.ModelRequest) ([]machine.Message, error) {
	links, err := r.chain(ctx, key, link{request: request}, 0)
	if err != nil {
		return nil, err
	}
	return r.chainMessages(ctx, key, links, true)
}

// chainMessages returns the messages of all requests of a chain, with the answers between them. talk reports whether the
// messages of the state's conversation are included.
func (r *Reader) chainMessages(ctx context.Context, key machine.RunKey, links []link, talk bool) ([]machine.Message, error) {
	var messages []machine.Message
	for i, l := range links {
		if i > 0 {
			answer, err := r.AnswerMessage(ctx, key, l.request.PreviousStep)
			if err != nil {
				return nil, err
			}
			messages = append(messages, answer)
		}
		for j := range l.request.Messages {
			m := &l.request.Messages[j]
			if m.Conversation != nil && !talk {
				continue
			}
			some, err := r.ElementMessages(ctx, key, m)
			if err != nil {
				return nil, err
			}
			messages = append(messages, some...)
		}
	}
	return messages, nil
}

// ElementMessages returns the messages that one element of a model request stands for.
func (r *Reader) ElementMessages(ctx context.Context, key machine.RunKey, m *machine.ModelMessage) ([]machine.Message, error) {
	switch {
	case m.Message != nil:
		return []machine.Message{*m.Message}, nil
	case m.Conversation != nil:
		all, err := r.Conversation(ctx, key, machine.Conversation{State: m.Conversation.State, From: m.Conversation.From, Next: m.Conversation.Next})
		if err != nil {
			return nil, err
		}
		if m.Conversation.First+m.Conversation.Count > len(all) {
			return nil, fmt.Errorf("runtime: the conversation of run %s has %d messages, %d are referred to: %w", key.ID, len(all), m.Conversation.First+m.Conversation.Count, machine.ErrNoRecord)
		}
		return all[m.Conversation.First : m.Conversation.First+m.Conversation.Count], nil
	case m.Answer != nil:
		answer, err := r.AnswerMessage(ctx, key, *m.Answer)
		return []machine.Message{answer}, err
	case m.Result != nil:
		answer, err := r.Answer(ctx, key, m.Result.AnsweredStep.Step, m.Result.AnsweredStep.Answer)
		return []machine.Message{ResultMessage(m.Result.CallID, &answer)}, err
	case m.IncludedSeq != 0:
		body, err := r.Body(ctx, key, m.IncludedSeq)
		text, _ := RequiredText(body)
		return []machine.Message{userMessage(text)}, err
	}
	return nil, nil
}

// turnMessages returns the messages of a turn up to a model call: the messages of its requests, without those of the
// state's conversation, and all answers.
func (r *Reader) turnMessages(ctx context.Context, key machine.RunKey, turn uint64, said machine.StepRef) ([]machine.Message, error) {
	request, made, err := r.ModelRequest(ctx, key, said)
	if err != nil {
		return nil, err
	}
	links, err := r.chain(ctx, key, link{request, made}, turn)
	if err != nil {
		return nil, err
	}
	messages, err := r.chainMessages(ctx, key, links, false)
	if err != nil {
		return nil, err
	}
	answer, err := r.AnswerMessage(ctx, key, said)
	return append(messages, answer), err
}

// FindStep returns a step of a run. It looks first among the steps of the current visit, then in the records of the
// run. Error: STEP_NOT_FOUND.
func (r *Reader) FindStep(ctx context.Context, key machine.RunKey, s *machine.State, step uint32) (*machine.ToolStep, error) {
	for i := range s.Steps {
		if s.Steps[i].Step == step {
			return &s.Steps[i], nil
		}
	}
	var found *machine.ToolStep
	for from := uint64(1); step <= s.LastStep && from <= s.Seq; {
		entries, err := r.store.Entries(ctx, key.Namespace, key.ID, from, Page)
		if err != nil {
			return nil, fmt.Errorf("runtime: read run %s from record %d: %w", key.ID, from, err)
		}
		if len(entries) == 0 {
			break
		}
		for i := range entries {
			for j := range entries[i].Records {
				found = stepAfter(found, &entries[i].Records[j], step)
			}
		}
		last := &entries[len(entries)-1]
		from = last.First + uint64(len(last.Records))
	}
	if found == nil {
		return nil, &machine.Error{
			Code: machine.CodeNotFound, Reason: "STEP_NOT_FOUND", Field: "step", Message: fmt.Sprintf("the run has no step %d", step),
			Limit: int64(s.LastStep), Got: int64(step),
		}
	}
	return found, nil
}

// stepAfter returns the step after one more record was applied to it. s is nil if no record of the step was found yet.
// A record that is not about the step changes nothing.
func stepAfter(s *machine.ToolStep, rec *machine.Record, step uint32) *machine.ToolStep {
	switch b := rec.Body.(type) {
	case *machine.StepRequested:
		if b.Step != step {
			return s
		}
		if s == nil {
			s = &machine.ToolStep{Step: step, Key: b.Key, TurnSeq: b.TurnSeq, RequestSeq: rec.Seq, Delegation: b.Delegation, Call: b.Call}
		}
		if b.Kind == machine.KindModel {
			s.Model = &machine.ModelStep{Changed: b.Changed}
		}
		if b.Changed {
			s.RequestSeq = rec.Seq
		}
		s.Tool, s.Attempt, s.Status, s.Deadline = b.Tool, b.Attempt, machine.StepStatusPending, b.Deadline
		if b.Hold != nil {
			s.Approval = &machine.StepApproval{Held: true, Since: rec.At}
		}
	case *machine.StepResolved:
		if s == nil || b.Step != step {
			return s
		}
		s.AnswerSeq, s.Deadline, s.Status = rec.Seq, 0, machine.StepStatusError
		switch {
		case b.OK:
			s.Status = machine.StepStatusOK
		case b.Next > 0:
			s.Status, s.Attempt, s.AnswerSeq, s.Deadline = machine.StepStatusPending, b.Next, 0, b.Deadline
		}
	case *machine.StepDecided:
		if s != nil && b.Step == step {
			decidedAfter(s, rec, b)
		}
	case *machine.StepCancelled:
		if s != nil && b.Step == step {
			s.Status, s.Deadline = machine.StepStatusCancelled, 0
		}
	case *machine.ModelUpdated:
		if s != nil && b.Step == step && s.Model != nil {
			s.Model.Changed = s.Model.Changed || b.Changed
		}
	case *machine.Origin:
		if taken := takenStep(b, step); taken.Step == step {
			s = &machine.ToolStep{Step: step, TurnSeq: rec.Seq, RequestSeq: rec.Seq, AnswerSeq: rec.Seq, Status: machine.StepStatusOK, Attempt: 1}
			if taken.Request != nil {
				s.Tool, s.Model = taken.Request.Model, &machine.ModelStep{}
			}
		}
	}
	return s
}

// decidedAfter applies the record of a decision about an approval to the step.
func decidedAfter(s *machine.ToolStep, rec *machine.Record, b *machine.StepDecided) {
	a := machine.StepApproval{}
	if s.Approval != nil {
		a = *s.Approval
	}
	a.Held, a.Verdict, a.By, a.At, a.Seq = b.Verdict == machine.Expired, b.Verdict, rec.Principal, rec.At, rec.Seq
	a.Digest, a.Expires = b.Digest, b.Expires
	if b.Verdict == machine.Edited {
		a.PayloadSeq = rec.Seq
	}
	s.Approval, s.Deadline = &a, b.Deadline
}
