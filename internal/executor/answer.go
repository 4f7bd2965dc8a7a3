package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/model"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// take processes an answer of the model to a turn. It returns the completion of the turn, or nil if the model must be
// called again.
func (x *exchange) take(ctx context.Context, step *pawlv1.Step) (*pawl.Completion, error) {
	answer := step.GetModel().GetAnswer()
	x.last, x.used, x.fresh = step.GetStep(), step.GetModel().GetUsage(), reading{}
	x.total.answer(answer)
	x.next = &pawlv1.ModelRequest{Model: x.endpoint.Name, PreviousStep: x.last}
	calls := answer.GetCalls()
	if len(calls) == 0 {
		return x.handleText(answer), nil
	}
	if len(calls) == 1 && calls[0].GetName() != "" && calls[0].GetBrokenArguments() == "" {
		switch calls[0].GetName() {
		case x.exitTool:
			return x.handleExitCall(answer, calls[0]), nil
		case x.ask:
			return x.handleQuestion(answer, calls[0]), nil
		}
	}
	return nil, x.make(ctx, calls)
}

// checkUsable returns an error for an answer that the model refused, that a content filter removed or that the token limit
// cut. The executor must not record it as an answer, because every later attempt would receive it from the record.
func checkUsable(name string, a *pawlv1.ModelAnswer) error {
	f := &model.Failure{}
	switch {
	case a.GetRefusal() != "":
		f.Code, f.Message = "REFUSED", a.GetRefusal()
	case a.GetFinishReason() == "content_filter":
		f.Code, f.Message = "CONTENT_FILTER", "the answer was filtered"
	case a.GetFinishReason() == "length":
		f.Code, f.Message = codeCut, "the answer was longer than max_tokens"
	default:
		return nil
	}
	f.Message = "model " + name + ": " + f.Message
	return f
}

// cutAt returns the error for an answer that was cut at the limit in the request. most is this limit in
// tokens.
func cutAt(name string, most int64) error {
	return &model.Failure{Code: codeCut, Message: fmt.Sprintf(
		"model %s: the answer was longer than the %d tokens that the call reserved: parameters.max_tokens of the pack says how many", name, most)}
}

// codeCut is the error code for an answer that was cut at its token limit.
const codeCut = "TRUNCATED"

// finishPaused is the finish reason of an answer that the provider has interrupted.
const finishPaused = "pause_turn"

// handleText handles an answer of the model that contains a text but no tool call. In a chat the text goes to a person,
// and the person may reply. Elsewhere it completes the turn, unless the state has an exit tool: then the model must call
// that tool, so handleText returns nil and asks the model once more. It also returns nil if the provider has interrupted
// the answer, or if the text does not match the schema of the output.
func (x *exchange) handleText(answer *pawlv1.ModelAnswer) *pawl.Completion {
	switch {
	case answer.GetFinishReason() == finishPaused:
		return nil // the provider continues the answer when the next request repeats it
	case x.chat:
		return x.useAsOutput(answer, &pawl.Completion{ConversationThroughStep: x.last, Await: pawlv1.Awaiting_AWAITING_INPUT})
	case x.exitTool == "":
		return x.useAsOutput(answer, &pawl.Completion{ConversationThroughStep: x.last})
	}
	x.addMessage(message("user", text("Call "+x.exitTool+" to go on; text alone does not move the run.")))
	return nil
}

// handleQuestion handles a call of the function with which the model asks the person a question. If the call is
// wrong, the model receives the error as the result of the call.
func (x *exchange) handleQuestion(answer *pawlv1.ModelAnswer, call *pawlv1.ModelCall) *pawl.Completion {
	var given struct {
		Question string `json:"question"`
	}
	err := strict(call.GetArguments(), &given)
	if err == nil && given.Question == "" {
		err = errors.New("question: want a string that is not empty")
	}
	if err != nil {
		x.mistake(call, err)
		return nil
	}
	return &pawl.Completion{
		Output: append(slices.Clip(answer.GetParts()), text(given.Question)), ConversationThroughStep: x.last, Await: pawlv1.Awaiting_AWAITING_INPUT,
		Messages: []*pawlv1.Message{toolMessage(call, `{"asked":true}`)},
	}
}

// toolMessage returns a message with the result of a call for which no step is made.
func toolMessage(call *pawlv1.ModelCall, value string) *pawlv1.Message {
	return &pawlv1.Message{Role: "tool", ToolCallId: call.GetId(), Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Json{Json: value}}}}
}

// handleExitCall handles the model's call of the exit tool, the function that leaves the state. If the call is wrong,
// the model receives the error as the result of the call.
func (x *exchange) handleExitCall(answer *pawlv1.ModelAnswer, call *pawlv1.ModelCall) *pawl.Completion {
	leaving, err := x.parseExitCall(call.GetArguments())
	if err != nil {
		x.mistake(call, err)
		return nil
	}
	taken, _ := json.Marshal(object{"event": leaving.Event}) // a text can always be encoded
	leaving.ConversationThroughStep, leaving.Messages = x.last, []*pawlv1.Message{toolMessage(call, string(taken))}
	if x.output == nil {
		leaving.Output = answer.GetParts()
	}
	return leaving
}

// parseExitCall reads the arguments of the model's call of the exit tool, the function that leaves the state.
func (x *exchange) parseExitCall(arguments string) (*pawl.Completion, error) {
	var given struct {
		Event     string                     `json:"event"`
		Artifacts map[string]json.RawMessage `json:"artifacts"`
		Output    json.RawMessage            `json:"output"`
	}
	if err := strict(arguments, &given); err != nil {
		return nil, fmt.Errorf("%w; the properties are %s, and each artifact is under artifacts", err, x.properties())
	}
	if !slices.Contains(x.view.GetAllowedEvents(), given.Event) {
		return nil, fmt.Errorf("event: one of %s, not %q", strings.Join(x.view.GetAllowedEvents(), ", "), given.Event)
	}
	done := &pawl.Completion{Event: given.Event}
	switch {
	case x.output == nil && given.Output != nil:
		return nil, fmt.Errorf("output: is no property; the properties are %s", x.properties())
	case x.output != nil && given.Output == nil:
		return nil, errors.New("output: is required")
	case x.output != nil:
		part, err := x.output.part(string(given.Output))
		if err != nil {
			return nil, fmt.Errorf("output: does not fit its JSON Schema: %w", err)
		}
		done.Output = []*pawlv1.Part{part}
	}
	var err error
	if done.Artifacts, err = x.artifactWrites(given.Artifacts); err != nil {
		return nil, err
	}
	return done, nil
}

// properties returns the names of the exit tool's parameters, as a text for error messages.
func (x *exchange) properties() string {
	if x.output != nil {
		return "event, output and artifacts"
	}
	return "event and artifacts"
}

// artifactWrites returns the artifact writes in the model's call of the exit tool, sorted by the name of the artifact.
func (x *exchange) artifactWrites(given map[string]json.RawMessage) (writes []*pawlv1.ArtifactWrite, err error) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		slot, value := x.slots[name], given[name]
		write := &pawlv1.ArtifactWrite{Name: name, Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Json{Json: string(value)}}}
		switch {
		case slot == nil:
			return nil, fmt.Errorf("artifacts: one of %s, not %q", strings.Join(slices.Sorted(maps.Keys(x.slots)), ", "), name)
		case isText(slot):
			var s string
			if strictjson.Decode(value, &s, strictjson.Closed) != nil {
				return nil, fmt.Errorf("artifacts.%s: want a string, got %.40s", name, value)
			}
			write.Value.Value = &pawlv1.ArtifactValue_Text{Text: s}
		}
		writes = append(writes, write)
	}
	return writes, nil
}

// strict decodes one JSON object. An unknown property is an error.
func strict(raw string, into any) error {
	if err := strictjson.Decode([]byte(raw), into, strictjson.Closed); err != nil {
		return fmt.Errorf("the arguments: %w", err)
	}
	return nil
}

// mistake adds the error of a wrong tool call to the next request, so that the model can correct the call.
func (x *exchange) mistake(call *pawlv1.ModelCall, err error) {
	x.refuse(call, "INVALID_CALL", err.Error())
}

func (x *exchange) refuse(call *pawlv1.ModelCall, code, why string) {
	fault, _ := json.Marshal(object{"error": object{"code": code, "message": why}}) // texts can always be encoded
	x.addMessage(toolMessage(call, string(fault)))
}

// holdTurn is how long the executor waits for the tool calls of one answer while it holds the turn. After that it
// suspends the turn until the tools have finished.
const holdTurn = 30 * time.Second

// tooMany is the reason of the error that a step was not accepted because the turn has too many pending steps.
const tooMany = "MAX_PENDING_STEPS"

// requestedCall is a tool call in an answer. It contains the step of the call, or the reason why the
// call has no step.
type requestedCall struct {
	step         *pawlv1.Step
	code, reason string
}

// make requests a step for each tool call of a model's answer, as many at once as may be pending. It adds the results
// to the next request in the order of the calls.
func (x *exchange) make(ctx context.Context, calls []*pawlv1.ModelCall) error {
	limited, cancel := context.WithTimeout(ctx, holdTurn)
	defer cancel()
	out := make([]requestedCall, len(calls))
	waiting := 0
	for i, call := range calls {
		for {
			var full bool
			var err error
			if out[i], full, err = x.requestCall(ctx, i, call); err != nil {
				return err
			}
			if !full {
				break
			}
			before := waiting
			if waiting, err = x.awaitCalls(limited, ctx, out[:i], waiting); err != nil {
				return err
			}
			if waiting == before {
				return &pawl.Failure{Code: tooMany, Message: "none of the pending steps is one of this answer's calls"}
			}
		}
	}
	for waiting < len(out) {
		var err error
		if waiting, err = x.awaitCalls(limited, ctx, out, waiting); err != nil {
			return err
		}
	}
	for i, call := range calls {
		if out[i].step == nil {
			x.refuse(call, out[i].code, out[i].reason)
			continue
		}
		x.add(func(r *reading) { r.result(out[i].step) })
		x.next.Messages = append(x.next.Messages, &pawlv1.ModelMessage{Content: &pawlv1.ModelMessage_Result{
			Result: &pawlv1.ToolResult{Step: out[i].step.GetStep(), CallId: call.GetId()},
		}})
	}
	return nil
}

// awaitCalls waits for the first unanswered call from the index `from` on, and returns the index after it. If the wait
// fails before ctx ends, for example after holdTurn, it returns [pawl.ErrSuspended] instead of the error.
func (x *exchange) awaitCalls(limited, ctx context.Context, out []requestedCall, from int) (int, error) {
	for ; from < len(out); from++ {
		step := out[from].step
		if step == nil || step.GetStatus() != pawlv1.StepStatus_STEP_STATUS_PENDING {
			continue
		}
		answered, err := x.turn.Answered(limited, step.GetStep())
		if err != nil && ctx.Err() == nil {
			return from, pawl.ErrSuspended
		}
		if err == nil {
			out[from].step = answered
		}
		return from + 1, err
	}
	return from, nil
}

// requestCall requests the step for one tool call of the model. full reports whether too many steps are pending. For the
// first call (i = 0), this is an error instead.
func (x *exchange) requestCall(ctx context.Context, i int, call *pawlv1.ModelCall) (out requestedCall, full bool, err error) {
	if call.GetBrokenArguments() != "" {
		_, err := strictjson.Object([]byte(call.GetBrokenArguments()))
		return requestedCall{code: "BAD_ARGUMENTS", reason: fmt.Sprintf("the arguments are no JSON object: %v", err)}, false, nil
	}
	if why := x.callFault(call); why != "" {
		return requestedCall{code: "INVALID_CALL", reason: why}, false, nil
	}
	payload := call.GetArguments()
	if strings.TrimSpace(payload) == "" {
		payload = "{}"
	}
	ref := &pawlv1.ToolCallRef{ModelStep: x.last, Index: int32(i)}
	got, err := x.turn.RequestCall(ctx, ref, call.GetName(), payload)
	switch code := pawl.ReasonOf(err); {
	case err == nil && got.GetDenial() != nil:
		return requestedCall{code: got.GetDenial().GetCode(), reason: got.GetDenial().GetMessage()}, false, nil
	case err == nil:
		return requestedCall{step: got.GetStep()}, false, nil
	case code == tooMany && i > 0:
		return requestedCall{}, true, nil
	case status.Code(err) == codes.InvalidArgument: // the model made a mistake, but the turn can continue
		return requestedCall{code: code, reason: err.Error()}, false, nil
	}
	return requestedCall{}, false, err
}

// callFault checks a tool call of the model before its step is requested. It returns a description of the fault, or "" if
// the call is valid.
func (x *exchange) callFault(call *pawlv1.ModelCall) string {
	if name := call.GetName(); name != "" && (name == x.exitTool || name == x.ask) {
		return "call " + name + " alone, once all other calls are answered"
	}
	var names []string
	for _, t := range x.offered {
		names = append(names, t.GetName())
	}
	if !slices.Contains(names, call.GetName()) {
		return fmt.Sprintf("there is no tool %q, only: %s", call.GetName(), strings.Join(names, ", "))
	}
	raw := bytes.TrimSpace([]byte(call.GetArguments()))
	if _, err := strictjson.Object(raw); len(raw) > 0 && err != nil {
		return fmt.Sprintf("the arguments are no JSON object: %v", err)
	}
	return ""
}
