package godriver

import (
	"context"
	"encoding/json"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// modelArgs are those of the verbs about calls of models.
type modelArgs struct {
	Round   int32         `json:"round"`
	Key     string        `json:"key"`
	Request *modelRequest `json:"request"`
	Bound   *usage        `json:"bound"`
	modelOutcome
	ResponseID string `json:"response_id"`
}

// modelRequest is what a model is asked.
type modelRequest struct {
	Model        string           `json:"model"`
	PreviousStep uint32           `json:"previous_step"`
	System       *string          `json:"system"`
	Tools        json.RawMessage  `json:"tools"`
	Parameters   json.RawMessage  `json:"parameters"`
	Messages     []requestMessage `json:"messages"`
}

// requestMessage is a new message, or some that were said before; one is set.
type requestMessage struct {
	Message      *message      `json:"message"`
	Conversation *conversation `json:"conversation"`
	Answer       uint32        `json:"answer"`
	Result       *toolResult   `json:"result"`
}

type conversation struct {
	First int32 `json:"first"`
	Count int32 `json:"count"`
}

type toolResult struct {
	Step   uint32 `json:"step"`
	CallID string `json:"call_id"`
}

// callRef names a tool call of a model.
type callRef struct {
	ModelStep uint32 `json:"model_step"`
	Index     int32  `json:"index"`
}

// modelOutcome is what came of a call of a model: an answer or a failure.
type modelOutcome struct {
	Answer  *answer       `json:"answer"`
	Failure *modelFailure `json:"failure"`
}

type answer struct {
	Text         string          `json:"text"`
	Calls        []modelCall     `json:"calls"`
	Refusal      string          `json:"refusal"`
	FinishReason string          `json:"finish_reason"`
	Model        string          `json:"model"`
	ResponseID   string          `json:"response_id"`
	Provider     json.RawMessage `json:"provider"`
}

type modelCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type modelFailure struct {
	fault
	Final bool `json:"non_retryable"`
	// RetryAfter is in seconds.
	RetryAfter float64 `json:"retry_after"`
}

func (a *modelRequest) wire() *pawlv1.ModelRequest {
	out := &pawlv1.ModelRequest{Model: a.Model, PreviousStep: a.PreviousStep, System: a.System}
	if a.Tools != nil {
		out.ToolsJson = new(string(a.Tools))
	}
	if a.Parameters != nil {
		out.ParametersJson = new(string(a.Parameters))
	}
	for _, m := range a.Messages {
		out.Messages = append(out.Messages, m.wire())
	}
	return out
}

func (m requestMessage) wire() *pawlv1.ModelMessage {
	out := &pawlv1.ModelMessage{}
	switch {
	case m.Message != nil:
		out.Content = &pawlv1.ModelMessage_Message{Message: m.Message.wire()}
	case m.Conversation != nil:
		out.Content = &pawlv1.ModelMessage_Conversation{Conversation: &pawlv1.ConversationRange{
			First: m.Conversation.First, Count: m.Conversation.Count,
		}}
	case m.Result != nil:
		out.Content = &pawlv1.ModelMessage_Result{Result: &pawlv1.ToolResult{Step: m.Result.Step, CallId: m.Result.CallID}}
	default:
		out.Content = &pawlv1.ModelMessage_Answer{Answer: m.Answer}
	}
	return out
}

func (c *callRef) wire() *pawlv1.ToolCallRef {
	if c == nil {
		return nil
	}
	return &pawlv1.ToolCallRef{ModelStep: c.ModelStep, Index: c.Index}
}

// fillRequest puts what came of the call into the request that tells it.
func (t modelOutcome) fillRequest(req *pawlv1.AnswerModelRequest) *pawlv1.AnswerModelRequest {
	if f := t.Failure; f != nil {
		failure := &pawlv1.ModelFailure{Error: f.wire(), NonRetryable: f.Final}
		if f.RetryAfter > 0 {
			failure.RetryAfter = durationpb.New(time.Duration(f.RetryAfter * float64(time.Second)))
		}
		req.Outcome = &pawlv1.AnswerModelRequest_Failure{Failure: failure}
	}
	if t.Answer != nil {
		req.Outcome = &pawlv1.AnswerModelRequest_Answer{Answer: t.Answer.wire()}
	}
	return req
}

func (a *answer) wire() *pawlv1.ModelAnswer {
	out := &pawlv1.ModelAnswer{
		Parts: partsOf(a.Text), Refusal: a.Refusal, FinishReason: a.FinishReason, Model: a.Model, ResponseId: a.ResponseID,
		ProviderJson: string(a.Provider),
	}
	for _, c := range a.Calls {
		out.Calls = append(out.Calls, &pawlv1.ModelCall{Id: c.ID, Name: c.Name, Arguments: c.Arguments})
	}
	return out
}

func (d *driver) requestModel(ctx context.Context, a args) (any, error) {
	turn := d.turnOf(a).GetTurn()
	got, err := retry(ctx, d.client().RequestModel, &pawlv1.RequestModelRequest{
		IncludeRequired: a.IncludeRequired == nil || *a.IncludeRequired,
		RunId:           turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
		Round: max(1, a.Round), Key: a.Key, Request: a.Request.wire(), Bound: a.Bound.wire(),
	})
	return canonical(got), err
}

func (d *driver) answerModel(ctx context.Context, a args) (any, error) {
	turn := d.turnOf(a).GetTurn()
	got, err := retry(ctx, d.client().AnswerModel, a.modelOutcome.fillRequest(&pawlv1.AnswerModelRequest{
		RunId: turn.GetRunId(), Step: a.Step, Attempt: max(1, a.Attempt), TurnToken: turn.GetToken(), Usage: a.Usage.wire(),
	}))
	return canonical(got), err
}

func (d *driver) updateModelCall(ctx context.Context, a args) (any, error) {
	turn := d.turnOf(a).GetTurn()
	got, err := retry(ctx, d.client().UpdateModelCall, &pawlv1.UpdateModelCallRequest{
		RunId: turn.GetRunId(), Step: a.Step, Attempt: max(1, a.Attempt), TurnToken: turn.GetToken(), ResponseId: a.ResponseID,
	})
	return canonical(got), err
}

func (d *driver) modelStep(ctx context.Context, a args) (any, error) {
	got, err := retry(ctx, d.client().GetModelStep, &pawlv1.GetModelStepRequest{RunId: d.runID(a), Step: a.Step})
	return canonical(got), err
}

func (d *driver) fork(ctx context.Context, a args) (any, error) {
	got, err := retry(ctx, d.client().ForkRun, &pawlv1.ForkRunRequest{
		RunId: d.runID(a), AtSeq: a.AtSeq, ReuseSteps: a.Reuse, RequestId: idOrNew(a.ID),
	})
	if err != nil {
		return nil, err
	}
	d.name(a.As, got.GetRun().GetRunId())
	return canonical(got.GetRun()), nil
}

func (d *driver) verify(ctx context.Context, a args) (any, error) {
	got, err := retry(ctx, d.client().VerifyRun, &pawlv1.VerifyRunRequest{RunId: d.runID(a)})
	return canonical(got), err
}
