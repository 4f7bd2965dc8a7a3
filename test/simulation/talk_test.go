//go:build sim

package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// talker is how an executor of a turn calls the sidecar: over its worker's stream, or by unary calls.
type talker interface {
	requestModel(ctx context.Context, round int32, asked *pawlv1.ModelRequest, bound *pawlv1.Usage) (*pawlv1.RequestModelResponse, error)
	answerModel(ctx context.Context, told *pawlv1.AnswerModelRequest) (*pawlv1.AnswerModelResponse, error)
	updateModelCall(ctx context.Context, told *pawlv1.UpdateModelCallRequest) error
	requestCall(ctx context.Context, call *pawlv1.StepRequest) (*pawlv1.StepOutcome, error)
	// answered waits for the answer of a step. call is the request for the step.
	answered(ctx context.Context, step uint32, call *pawlv1.StepRequest) (*pawlv1.Step, error)
}

// conversation is one execution of a turn by a model. It builds the model's input from what it
// received, and compares the sidecar's transcript with it.
type conversation struct {
	world *world
	node  *node
	by    talker
	run   string
	turn  uint64
	view  *pawlv1.GetTurnResponse
	dice  *rand.Rand
	// inline means that every request contains the whole conversation. Otherwise a request refers to
	// the one before.
	inline bool
	system string

	// said is everything that the model was shown and has answered. refs is the same as references.
	// news is the part that no request contains yet.
	said       []*pawlv1.Message
	refs, news []*pawlv1.ModelMessage
	last       uint32
	spoke      int
	// `heard` are the records of the messages that people sent in the meantime.
	heard []uint64
}

func newConversation(w *world, n *node, by talker, run string, view *pawlv1.GetTurnResponse, dice *rand.Rand) *conversation {
	c := &conversation{
		world: w, node: n, by: by, run: run, turn: view.GetTurn().GetTurnSeq(), view: view, dice: dice,
		inline: dice.IntN(3) == 0, system: view.GetSystemPrompt(),
	}
	if dice.IntN(6) == 0 {
		c.system += " Another edition."
	}
	c.say(&pawlv1.ModelMessage{Content: &pawlv1.ModelMessage_Conversation{Conversation: &pawlv1.ConversationRange{}}}, view.GetMessages()...)
	if len(view.GetMessages()) == 0 {
		begin := &pawlv1.Message{Role: "user", Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "Begin."}}}}
		c.say(&pawlv1.ModelMessage{Content: &pawlv1.ModelMessage_Message{Message: begin}}, begin)
	}
	c.answered()
	return c
}

// answered checks that each tool call that the model is shown has an answer.
func (c *conversation) answered() {
	if id := dangling(c.said); id != "" {
		c.world.fail("no tool call dangles", "turn %d of %s sees the call %s, and no answer to it", c.turn, c.run, id)
	}
}

// dangling returns a tool call without an answer in a conversation. "" means that there is none.
func dangling(messages []*pawlv1.Message) string {
	open := map[string]bool{}
	for _, m := range messages {
		if m.GetRole() == "tool" {
			delete(open, m.GetToolCallId())
			continue
		}
		for id := range open {
			return id
		}
		var calls []struct{ ID string }
		if text := m.GetToolCallsJson(); text != "" && json.Unmarshal([]byte(text), &calls) == nil {
			for _, call := range calls {
				open[call.ID] = true
			}
		}
	}
	for id := range open {
		return id
	}
	return ""
}

// say adds messages to what the model is shown.
func (c *conversation) say(ref *pawlv1.ModelMessage, meant ...*pawlv1.Message) {
	c.refs, c.news = append(c.refs, ref), append(c.news, ref)
	c.said = append(c.said, meant...)
}

// errAgain is the error of an execution that fails in the middle of a turn.
var errAgain = errors.New("this execution fails")

// hold asks the model until it makes no more calls, and returns its last words.
func (c *conversation) hold(ctx context.Context) (*pawlv1.ModelAnswer, error) {
	for round := int32(1); ; round++ {
		answer, err := c.round(ctx, round)
		if err != nil {
			return nil, err
		}
		if len(answer.GetCalls()) == 0 {
			return answer, nil
		}
		if !c.world.healing && c.dice.IntN(10) == 0 {
			return nil, errAgain
		}
		if err := c.make(ctx, answer.GetCalls()); err != nil {
			return nil, err
		}
	}
}

const toolsJSON = `[{"name":"charge"},{"name":"helper"}]`

// request returns the request of the next round.
func (c *conversation) request() *pawlv1.ModelRequest {
	r := &pawlv1.ModelRequest{Model: modelName, System: new(c.system), PreviousStep: c.last, Messages: c.news}
	if c.inline || c.last == 0 {
		r.PreviousStep, r.Messages = 0, c.refs
		r.ToolsJson, r.ParametersJson = new(toolsJSON), new(`{"seed":1}`)
	}
	return r
}

// round returns the answer of a round, from the record or from the model.
func (c *conversation) round(ctx context.Context, round int32) (*pawlv1.ModelAnswer, error) {
	name, book := roundID(c.node, c.run, c.turn, round), c.world.ledger
	known := book.answered(name)
	c.answered()
	book.asks(name, content(c.system, toolsJSON, `{"seed":1}`, c.said))
	c.world.pass(c.node)
	got, err := c.ask(ctx, round)
	c.world.pass(c.node)
	if err != nil {
		return nil, err
	}
	if d := got.GetDenial(); d != nil {
		return nil, &pawl.Failure{Code: d.GetCode(), Message: d.GetMessage(), Final: true}
	}
	c.listen(got.GetIncludedMessages())
	step := got.GetStep()
	book.is(stepID{c.node.name, c.run, step.GetStep()}, name)
	if known != nil && step.GetStatus() != pawlv1.StepStatus_STEP_STATUS_OK {
		c.world.fail("an answered call is not made again", "round %s was answered, and is %s", name, step.GetStatus())
	}
	var answer *pawlv1.ModelAnswer
	switch step.GetStatus() {
	case pawlv1.StepStatus_STEP_STATUS_OK:
		answer = step.GetModel().GetAnswer()
		c.world.endpoint.said("round "+name, answer)
	case pawlv1.StepStatus_STEP_STATUS_PENDING:
		if answer, err = c.call(ctx, step); err != nil {
			return nil, err
		}
	default:
		return nil, &pawl.Failure{Code: step.GetError().GetCode(), Message: step.GetError().GetMessage()}
	}
	book.acknowledged(name, answer)
	c.hear(step.GetStep(), answer)
	return answer, nil
}

// hear adds an answer of the model to the conversation.
func (c *conversation) hear(step uint32, answer *pawlv1.ModelAnswer) {
	m := &pawlv1.Message{Role: "assistant", Parts: answer.GetParts(), Refusal: answer.GetRefusal(), ProviderJson: answer.GetProviderJson()}
	if calls := answer.GetCalls(); len(calls) > 0 {
		texts := make([]string, len(calls))
		for i, call := range calls {
			texts[i] = fmt.Sprintf(`{"id":%q,"name":%q,"arguments":%q}`, call.GetId(), call.GetName(), call.GetArguments())
		}
		m.ToolCallsJson = "[" + strings.Join(texts, ",") + "]"
	}
	c.refs = append(c.refs, &pawlv1.ModelMessage{Content: &pawlv1.ModelMessage_Answer{Answer: step}})
	c.said, c.news, c.last = append(c.said, m), nil, step
	c.spoke++
}

// call makes the attempts of a call until one is answered.
func (c *conversation) call(ctx context.Context, step *pawlv1.Step) (*pawlv1.ModelAnswer, error) {
	id := stepID{c.node.name, c.run, step.GetStep()}
	c.world.ledger.show(id, step.GetAttempt(), content(c.system, toolsJSON, `{"seed":1}`, c.said))
	if _, err := c.world.transcript(ctx, c.node, id); err != nil {
		return nil, err
	}
	if at := step.GetModel().GetNotBefore(); at != nil {
		if err := pause(ctx, time.Second); err != nil {
			return nil, err
		}
	}
	if most := step.GetModel().GetMaxOutputTokens(); most != mostOutput {
		c.world.fail("the bound that is reserved is sent", "step %d of %s is to be asked for %d tokens at most, its bound has %d", id.step, c.run, most, mostOutput)
	}
	response := step.GetModel().GetResponseId()
	for attempt := step.GetAttempt(); ; {
		made, err := c.attempt(ctx, id, attempt, response)
		if err != nil {
			return nil, err
		}
		c.world.pass(c.node)
		got, err := c.report(ctx, id, attempt, made)
		c.world.pass(c.node)
		switch {
		case err != nil:
			return nil, err
		case got.GetDisposition() != pawlv1.Disposition_DISPOSITION_ACCEPTED:
			return nil, fmt.Errorf("attempt %d of step %d is answered too late: %s", attempt, id.step, got.GetDisposition())
		case made.answer != nil:
			return made.answer, nil
		case got.GetNext() == 0:
			return nil, &pawl.Failure{Code: made.failure.GetError().GetCode(), Message: made.failure.GetError().GetMessage()}
		}
		attempt, response = got.GetNext(), ""
		if err := pause(ctx, got.GetWait().AsDuration()); err != nil {
			return nil, err
		}
	}
}

// attempt calls the endpoint, or fetches the response of an earlier execution by its id.
func (c *conversation) attempt(ctx context.Context, id stepID, attempt int32, response string) (*modelCall, error) {
	if response != "" {
		return c.world.endpoint.fetch(ctx, response)
	}
	o := &offer{spoke: c.spoke, shown: content("", "", "", c.said), loose: c.loose()}
	if !c.view.GetTerminal() {
		for _, tool := range c.view.GetTools() {
			o.tools = append(o.tools, tool.GetName())
		}
	}
	var told func(string)
	if c.dice.IntN(2) == 0 {
		told = func(response string) {
			_ = c.by.updateModelCall(ctx, &pawlv1.UpdateModelCallRequest{RunId: c.run, Step: id.step, Attempt: attempt, ResponseId: response})
			c.world.pass(c.node)
		}
	}
	return c.world.endpoint.ask(ctx, o, told)
}

// report reports the outcome of an attempt.
func (c *conversation) report(ctx context.Context, id stepID, attempt int32, made *modelCall) (*pawlv1.AnswerModelResponse, error) {
	told := &pawlv1.AnswerModelRequest{RunId: c.run, Step: id.step, Attempt: attempt, Usage: made.told()}
	if made.answer != nil {
		told.Outcome = &pawlv1.AnswerModelRequest_Answer{Answer: proto.CloneOf(made.answer)}
	} else {
		told.Outcome = &pawlv1.AnswerModelRequest_Failure{Failure: proto.CloneOf(made.failure)}
	}
	r := c.world.ledger.tells(id, attempt, told)
	got, err := c.by.answerModel(ctx, told)
	if err == nil {
		c.world.ledger.hears(r, got)
	}
	return got, err
}

// make makes all calls of an answer at once and gives the results to the model.
func (c *conversation) make(ctx context.Context, calls []*pawlv1.ModelCall) error {
	steps, faults := make([]*pawlv1.Step, len(calls)), make([]error, len(calls))
	denials := make([]*pawlv1.Denial, len(calls))
	var all sync.WaitGroup
	for i, call := range calls {
		if call.GetName() != "unheard of" {
			again := c.dice.Uint64()
			all.Go(func() { steps[i], denials[i], faults[i] = c.effect(ctx, i, call, again) })
		}
	}
	all.Wait()
	if err := errors.Join(faults...); err != nil {
		return err
	}
	c.world.pass(c.node)
	for i, call := range calls {
		m := &pawlv1.Message{Role: "tool", ToolCallId: call.GetId(), Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Json{Json: `{"error":{"code":"INVALID_CALL","message":"there is no such tool"}}`}}}}
		if steps[i] == nil {
			if d := denials[i]; d != nil {
				m.Parts[0].Content = &pawlv1.Part_Json{Json: fmt.Sprintf(`{"error":{"code":%q,"message":%q}}`, d.GetCode(), d.GetMessage())}
			}
			c.say(&pawlv1.ModelMessage{Content: &pawlv1.ModelMessage_Message{Message: m}}, m)
			continue
		}
		text := steps[i].GetResultJson()
		if e := steps[i].GetError(); e != nil {
			text = fmt.Sprintf(`{"error":{"code":%q,"message":%q}}`, e.GetCode(), e.GetMessage())
		}
		m.Parts = []*pawlv1.Part{{Content: &pawlv1.Part_Json{Json: text}}}
		c.say(&pawlv1.ModelMessage{Content: &pawlv1.ModelMessage_Result{Result: &pawlv1.ToolResult{Step: steps[i].GetStep(), CallId: call.GetId()}}}, m)
	}
	return nil
}

// effect makes one call. Every execution spells its arguments differently, which must have no effect.
func (c *conversation) effect(ctx context.Context, i int, call *pawlv1.ModelCall, again uint64) (*pawlv1.Step, *pawlv1.Denial, error) {
	asked := &pawlv1.StepRequest{
		Tool: call.GetName(), PayloadJson: strings.TrimSuffix(call.GetArguments(), "}") + fmt.Sprintf(`,"again":"%x"}`, again),
		Call: &pawlv1.ToolCallRef{ModelStep: c.last, Index: int32(i)},
	}
	if call.GetName() != "charge" && costs[call.GetName()] == 0 {
		asked.PayloadJson = call.GetArguments()
	}
	name := fmt.Sprintf("%s/%s/%d/%d", c.node.name, c.run, c.last, i)
	if d := c.world.ledger.denied(name, nil); d != nil {
		return nil, d, nil
	}
	c.world.pass(c.node)
	got, err := c.by.requestCall(ctx, asked)
	c.world.pass(c.node)
	if reasonOfStatus(err) == "INVALID_JSON" {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	switch d := got.GetDenial(); {
	case d.GetCode() == machine.DuplicateEffect || d.GetCode() == "PAYLOAD_INVALID":
		return nil, c.world.ledger.denied(name, d), nil
	case d != nil:
		return nil, nil, &pawl.Failure{Code: d.GetCode(), Message: d.GetMessage(), Final: true}
	case got.GetStep().GetStatus() != pawlv1.StepStatus_STEP_STATUS_PENDING:
		return got.GetStep(), nil, nil
	}
	step, err := c.by.answered(ctx, got.GetStep().GetStep(), asked)
	return step, nil, err
}
