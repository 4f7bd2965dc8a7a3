package convert

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/conversation"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/query"
)

// RequestModelFromProto converts a RequestModel request.
func RequestModelFromProto(c Caller, req *pawlv1.RequestModelRequest) (runtime.Request, error) {
	asked, err := modelFromProto(req.GetRequest())
	return runtime.Request{RunRef: c.Run(req), TurnToken: req.GetTurnToken(), Command: machine.RequestModel{
		TurnSeq: req.GetTurnSeq(), Attempt: int(req.GetAttempt()), Round: int(req.GetRound()), Key: req.GetKey(),
		Model: asked, IncludeRequired: req.GetIncludeRequired(), Bound: usageFromProto(req.GetBound()),
	}}, err
}

// AnswerModelFromProto converts an AnswerModel request.
func AnswerModelFromProto(c Caller, req *pawlv1.AnswerModelRequest) (runtime.Request, error) {
	cmd := machine.AnswerModel{Step: req.GetStep(), Attempt: int(req.GetAttempt()), Usage: usageFromProto(req.GetUsage())}
	var err error
	if failure := req.GetFailure(); failure != nil {
		cmd.Error, cmd.Final, cmd.RetryAfter = faultFromProto(failure.GetError()), failure.GetNonRetryable(), failure.GetRetryAfter().AsDuration()
	} else {
		cmd.Answer, err = modelAnswerFromProto(req.GetAnswer())
	}
	return runtime.Request{RunRef: c.Run(req), TurnToken: req.GetTurnToken(), Command: cmd}, err
}

// UpdateModelCallFromProto converts an UpdateModelCall request.
func UpdateModelCallFromProto(c Caller, req *pawlv1.UpdateModelCallRequest) (runtime.Request, error) {
	return runtime.Request{RunRef: c.Run(req), TurnToken: req.GetTurnToken(), Command: machine.UpdateModelCall{
		Step: req.GetStep(), Attempt: int(req.GetAttempt()), ResponseID: req.GetResponseId(),
	}}, nil
}

// modelFromProto converts a model request. References keep only the numbers that the caller gave; package
// conversation resolves them.
func modelFromProto(in *pawlv1.ModelRequest) (*machine.ModelRequest, error) {
	if in == nil {
		in = &pawlv1.ModelRequest{}
	}
	out := &machine.ModelRequest{Model: in.GetModel(), PreviousStep: machine.StepRef{Step: in.GetPreviousStep()}}
	for _, text := range []struct {
		given *string
		to    *machine.ModelText
	}{{in.System, &out.System}, {in.ToolsJson, &out.Tools}, {in.ParametersJson, &out.Parameters}} {
		if text.given != nil {
			*text.to = conversation.Text(*text.given)
		}
	}
	for i, m := range in.GetMessages() {
		var to machine.ModelMessage
		switch content := m.GetContent().(type) {
		case *pawlv1.ModelMessage_Message:
			one, err := messagesFromProto(fmt.Sprintf("request.messages[%d].message", i), []*pawlv1.Message{content.Message})
			if err != nil {
				return nil, err
			}
			to.Message = &one[0]
		case *pawlv1.ModelMessage_Conversation:
			to.Conversation = &machine.ConversationRange{First: int(content.Conversation.GetFirst()), Count: int(content.Conversation.GetCount())}
		case *pawlv1.ModelMessage_Answer:
			to.Answer = &machine.StepRef{Step: content.Answer}
		case *pawlv1.ModelMessage_Result:
			to.Result = &machine.ToolResult{AnsweredStep: machine.StepRef{Step: content.Result.GetStep()}, CallID: content.Result.GetCallId()}
		case *pawlv1.ModelMessage_IncludedSeq:
			to.IncludedSeq = content.IncludedSeq
		}
		out.Messages = append(out.Messages, to)
	}
	return out, nil
}

func modelToProto(in *machine.ModelRequest) *pawlv1.ModelRequest {
	if in == nil {
		return nil
	}
	out := &pawlv1.ModelRequest{Model: in.Model, PreviousStep: in.PreviousStep.Step, Hash: in.Hash[:]}
	out.System, out.SystemHash = modelText(in.System)
	out.ToolsJson, out.ToolsHash = modelText(in.Tools)
	out.ParametersJson, out.ParametersHash = modelText(in.Parameters)
	for i := range in.Messages {
		out.Messages = append(out.Messages, modelMessage(&in.Messages[i]))
	}
	return out
}

// modelText returns the content and the hash of a text in a model request. The content is nil if the
// request contains only the hash.
func modelText(t machine.ModelText) (text *string, hash []byte) {
	if t.Hash == ([32]byte{}) {
		return nil, nil
	}
	if t.Seq == 0 {
		text = &t.Text
	}
	return text, t.Hash[:]
}

// modelMessage converts one message of a recorded model request.
func modelMessage(m *machine.ModelMessage) *pawlv1.ModelMessage {
	switch {
	case m.Message != nil:
		return &pawlv1.ModelMessage{Content: &pawlv1.ModelMessage_Message{Message: messagesToProto([]machine.Message{*m.Message})[0]}}
	case m.Conversation != nil:
		return &pawlv1.ModelMessage{Content: &pawlv1.ModelMessage_Conversation{Conversation: &pawlv1.ConversationRange{
			First: int32(m.Conversation.First), Count: int32(m.Conversation.Count),
		}}}
	case m.Answer != nil:
		return &pawlv1.ModelMessage{Content: &pawlv1.ModelMessage_Answer{Answer: m.Answer.Step}}
	case m.Result != nil:
		return &pawlv1.ModelMessage{Content: &pawlv1.ModelMessage_Result{Result: &pawlv1.ToolResult{Step: m.Result.AnsweredStep.Step, CallId: m.Result.CallID}}}
	}
	return &pawlv1.ModelMessage{Content: &pawlv1.ModelMessage_IncludedSeq{IncludedSeq: m.IncludedSeq}}
}

func modelAnswerFromProto(in *pawlv1.ModelAnswer) (*machine.ModelAnswer, error) {
	parts, err := partsFromProto("answer.parts", in.GetParts())
	if err != nil {
		return nil, err
	}
	out := &machine.ModelAnswer{
		Parts: parts, Refusal: in.GetRefusal(), Finish: in.GetFinishReason(), Model: in.GetModel(),
		ResponseID: in.GetResponseId(), Provider: []byte(in.GetProviderJson()), ProviderName: in.GetProviderName(),
	}
	for _, call := range in.GetCalls() {
		out.Calls = append(out.Calls, machine.ModelCall{ID: call.GetId(), Name: call.GetName(), Arguments: call.GetArguments(), Broken: call.GetBrokenArguments()})
	}
	return out, nil
}

func modelAnswerToProto(in *machine.ModelAnswer) *pawlv1.ModelAnswer {
	if in == nil {
		return nil
	}
	out := &pawlv1.ModelAnswer{
		Parts: partsToProto(in.Parts), Refusal: in.Refusal, FinishReason: in.Finish, Model: in.Model,
		ResponseId: in.ResponseID, ProviderJson: string(in.Provider), ProviderName: in.ProviderName,
	}
	for _, call := range in.Calls {
		out.Calls = append(out.Calls, &pawlv1.ModelCall{Id: call.ID, Name: call.Name, Arguments: call.Arguments, BrokenArguments: call.Broken})
	}
	return out
}

// kindToProto converts the kind of a step.
func kindToProto(kind machine.StepKind, delegation bool) pawlv1.StepKind {
	switch {
	case kind == machine.KindModel:
		return pawlv1.StepKind_STEP_KIND_MODEL
	case delegation || kind == machine.KindDelegation:
		return pawlv1.StepKind_STEP_KIND_DELEGATION
	}
	return pawlv1.StepKind_STEP_KIND_TOOL
}

func callToProto(c *machine.CallRef) *pawlv1.ToolCallRef {
	if c == nil {
		return nil
	}
	return &pawlv1.ToolCallRef{ModelStep: c.Step, Index: int32(c.Index)}
}

func callFromProto(c *pawlv1.ToolCallRef) *machine.CallRef {
	if c == nil {
		return nil
	}
	return &machine.CallRef{Step: c.GetModelStep(), Index: int(c.GetIndex())}
}

// modelStepToProto converts the data of a MODEL step. It returns nil for other steps.
func modelStepToProto(s *machine.ToolStep) *pawlv1.ModelStep {
	m := s.Model
	if m == nil {
		return nil
	}
	out := &pawlv1.ModelStep{ResponseId: m.ResponseID, NotBefore: TimeToProto(m.NotBefore), RequestChanged: m.Changed}
	if m.Bounded {
		out.MaxOutputTokens = m.Output
	}
	return out
}

// withModel adds the recorded request and answer to a converted MODEL step.
func withModel(out *pawlv1.Step, asked *machine.ModelRequest, answer *history.Recorded) {
	if out.GetModel() == nil {
		return
	}
	out.Model.Request, out.Model.Answer, out.Model.Usage = modelToProto(asked), modelAnswerToProto(answer.Model), usageToProto(answer.Usage)
}

// ModelRequested returns the response of RequestModel.
func ModelRequested(a *Answer) *pawlv1.RequestModelResponse {
	out := &pawlv1.RequestModelResponse{
		Ended: a.Record(machine.RecEnded), Status: a.Status(), Seq: a.Seq(),
		MaxAnswerBytes: rules.AnswerSpace(a.State), Remaining: a.Remaining(), IncludedMessages: includedMessagesToProto(a.IncludedMessages),
	}
	if len(a.Steps) == 0 {
		return out
	}
	outcome := &a.Steps[0]
	out.Key, out.Replayed, out.Denial = outcome.Key, outcome.Replayed, denialToProto(outcome.Denial)
	for i := range a.State.Steps {
		if s := &a.State.Steps[i]; outcome.Step != 0 && s.Step == outcome.Step {
			out.Step = stepToProto(a.RunID, s)
			out.Step.Error = faultToProto(outcome.Error)
			withModel(out.Step, nil, &outcome.Recorded)
		}
	}
	return out
}

// Remaining returns the budget that would be left if every pending step consumed its maximum.
func (a *Answer) Remaining() *pawlv1.Remaining {
	remaining := rules.RemainingAt(a.Graph, a.State, a.State.At)
	tokens, cost := rules.Reserved(a.State, -1)
	for _, budget := range []struct {
		left *int64
		used int64
	}{{remaining.Tokens, tokens}, {remaining.CostMicro, cost}} {
		if budget.left != nil {
			*budget.left = max(0, *budget.left-budget.used)
		}
	}
	return RemainingToProto(&remaining)
}

// ModelAnswered returns the response of AnswerModel.
func ModelAnswered(a *Answer) *pawlv1.AnswerModelResponse {
	out := &pawlv1.AnswerModelResponse{
		Disposition: pawlv1.Disposition(a.Disposition), Record: a.Record(machine.RecStepResolved), Ended: a.Record(machine.RecEnded),
		Status: a.Status(), Seq: a.Seq(), Duplicate: a.Duplicate,
	}
	if out.Record == nil {
		out.Record = a.Record(machine.RecModelUpdated)
	}
	for i := range a.Entry.Records {
		if r, ok := a.Entry.Records[i].Body.(*machine.StepResolved); ok && r.Next > 0 {
			out.Next = int32(r.Next)
			out.Wait = durationpb.New(max(0, time.Duration(r.NotBefore-a.Entry.Records[i].At)))
		}
	}
	return out
}

// ModelCallUpdated returns the response of UpdateModelCall.
func ModelCallUpdated(a *Answer) *pawlv1.UpdateModelCallResponse {
	return &pawlv1.UpdateModelCallResponse{Disposition: pawlv1.Disposition(a.Disposition), Record: a.Record(machine.RecModelUpdated), Seq: a.Seq()}
}

// ModelShown returns the response of GetModelStep.
func ModelShown(v *query.ModelView) *pawlv1.GetModelStepResponse {
	return &pawlv1.GetModelStepResponse{
		Step: StepViewToProto(v.Run.RunID, &v.Step), System: v.System, ToolsJson: v.Tools, ParametersJson: v.Parameters,
		Messages: messagesToProto(v.Messages),
	}
}

func modelUpdatedToProto(b *machine.ModelUpdated) *pawlv1.ModelUpdated {
	out := &pawlv1.ModelUpdated{
		Step: b.Step, Attempt: int32(b.Attempt), ResponseId: b.ResponseID, Usage: usageToProto(b.Usage), RequestChanged: b.Changed,
	}
	if b.Changed {
		out.RequestHash = b.Hash[:]
	}
	return out
}
