//go:build sim

package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// modelName is what testdata/pack.json calls the model that it has a price of.
const modelName = "gpt"

// These constants bound the consumption of one model call. Executors report the bound before the call.
const (
	mostInput  = 12
	mostOutput = 4
)

// endpoint is the endpoint of a model, outside of the sidecars. It words the same answer differently
// each time. It records every call and its consumption.
type endpoint struct {
	world *world
	mu    sync.Mutex
	dice  *rand.Rand
	calls []*modelCall
}

// modelCall is one call. It has an answer or a failure.
type modelCall struct {
	id      string
	late    time.Duration
	answer  *pawlv1.ModelAnswer
	failure *pawlv1.ModelFailure
	usage   *pawlv1.Usage
	// `heard` are the texts of people that the model was shown.
	heard []string
	// silence selects the part of the usage that the endpoint does not report.
	silence silence
}

// offer is the input of the endpoint: the tools that it may call, and the number of its answers in this
// turn.
type offer struct {
	tools []string
	spoke int
	// leave is the function that ends the turn, with one of these events; "" = a text does.
	leave  string
	events []string
	// shown is everything that the model is shown, as one text.
	shown string
	// loose means that the endpoint sometimes consumes more than its bound.
	loose bool
}

func newEndpoint(w *world) *endpoint {
	return &endpoint{world: w, dice: rand.New(rand.NewPCG(w.seed, 13))}
}

// ask makes a call and waits for its outcome. The call counts even if the caller does not receive the
// outcome. If `told` is not nil, it receives the id of the response at once.
func (e *endpoint) ask(ctx context.Context, o *offer, told func(id string)) (*modelCall, error) {
	call := e.begin(o)
	if told != nil {
		told(call.id)
	}
	return call, pause(ctx, call.late)
}

// fetch returns the response of an earlier call by its id. It may be called several times.
func (e *endpoint) fetch(ctx context.Context, id string) (*modelCall, error) {
	call := e.known(id)
	if call == nil {
		e.world.fail("what was noted is told", "a response %q was never begun", id)
		return nil, context.Canceled
	}
	return call, pause(ctx, call.late)
}

func (e *endpoint) known(id string) *modelCall {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, call := range e.calls {
		if call.id == id {
			return call
		}
	}
	return nil
}

// begin decides the outcome of a call.
func (e *endpoint) begin(o *offer) *modelCall {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, dice := len(e.calls)+1, e.dice
	call := &modelCall{
		id: fmt.Sprintf("response-%d", n), late: time.Duration(dice.IntN(600)) * time.Millisecond,
		usage: &pawlv1.Usage{InputTokens: 1 + dice.Int64N(mostInput), OutputTokens: 1 + dice.Int64N(mostOutput), Model: modelName},
	}
	if !e.world.healing && dice.IntN(6) == 0 {
		call.silence = silence(1 + dice.IntN(int(saysOutput)))
	}
	if o.loose && !e.world.healing && dice.IntN(16) == 0 {
		call.usage.OutputTokens += pick(dice, int64(mostOutput), mostOutput, 2*mostOutput, maxTokens+mostOutput)
	}
	e.calls = append(e.calls, call)
	e.hears(call, o.shown)
	switch fate := dice.IntN(12); {
	case e.world.healing || fate > 3:
		call.answer = e.answer(n, o)
		call.answer.ResponseId = call.id
	case fate > 1:
		call.failure = &pawlv1.ModelFailure{
			Error:      &pawlv1.Fault{Code: "MODEL_503", Message: call.id},
			RetryAfter: durationpb.New(time.Duration(dice.IntN(3000)) * time.Millisecond),
		}
		call.usage.InputTokens, call.usage.OutputTokens = 0, 0
	default: // what was written until it was cut has to be paid for
		call.failure = &pawlv1.ModelFailure{Error: &pawlv1.Fault{Code: "STREAM_TRUNCATED", Message: call.id}}
	}
	return call
}

// answer returns a text or tool calls. The longer the turn is, the fewer tool calls it returns.
func (e *endpoint) answer(n int, o *offer) *pawlv1.ModelAnswer {
	a := &pawlv1.ModelAnswer{Model: "scripted", FinishReason: "stop", Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: fmt.Sprintf("worded for the %dth time", n)}}}}
	if e.world.healing || len(o.tools) == 0 || e.dice.IntN(4) < o.spoke {
		e.leave(n, o, a)
		return a
	}
	a.FinishReason = "tool_calls"
	for i := range 1 + e.dice.IntN(3) {
		c := &pawlv1.ModelCall{Id: fmt.Sprintf("call-%d-%d", n, i), Name: "charge", Arguments: fmt.Sprintf(`{"order":"%d.%d"}`, n, i)}
		if !slices.Contains(o.tools, c.GetName()) {
			c.Name, c.Arguments = e.ware(o, fmt.Sprintf("%d.%d", n, i))
		}
		switch what := e.dice.IntN(8); {
		case what == 0 && slices.Contains(o.tools, "helper"):
			c.Name, c.Arguments = "helper", letterOf(e.dice, fmt.Sprintf("help with %d", n))
		case what == 1:
			c.Name = "unheard of"
		case what < 5 && slices.Contains(o.tools, "book"):
			c.Name, c.Arguments = "book", seatOf(e.dice)
		}
		a.Calls = append(a.Calls, c)
	}
	return a
}

// ware is a call of testdata/till.json.
func (e *endpoint) ware(o *offer, order string) (tool, arguments string) {
	tool = o.tools[e.dice.IntN(len(o.tools))]
	if costs[tool] == 0 {
		return tool, letterOf(e.dice, "go "+order)
	}
	return tool, fmt.Sprintf(`{%s,"order":%q}`, amountOf(e.dice, 20+10*e.dice.IntN(7)), order)
}

// leave ends the turn.
func (e *endpoint) leave(n int, o *offer, a *pawlv1.ModelAnswer) {
	if o.leave == "" || len(o.events) == 0 {
		return
	}
	event := o.events[e.dice.IntN(len(o.events))]
	if e.world.healing {
		event = bestOf(o.events)
	}
	a.FinishReason = "tool_calls"
	a.Calls = []*pawlv1.ModelCall{{Id: fmt.Sprintf("call-%d-0", n), Name: o.leave, Arguments: fmt.Sprintf(`{"event":%q}`, event)}}
}

// bestOf returns the event that ends a run soonest, or else the first event.
func bestOf(events []string) string {
	for _, event := range events {
		if event == "Finish" || event == "Closed" {
			return event
		}
	}
	if len(events) == 0 {
		return ""
	}
	return events[0]
}

// said compares an answer in a record with the answer of the endpoint, byte for byte except for the
// normalization (ADR 0087): missing arguments become an empty object, and arguments that are no object
// are kept beside one.
func (e *endpoint) said(where string, a *pawlv1.ModelAnswer) {
	call, people := e.known(a.GetResponseId()), proto.CloneOf(a)
	if call == nil {
		e.world.fail("what a model answered is what is recorded", "%s has %v", where, a)
		return
	}
	want := proto.CloneOf(call.answer)
	for _, c := range want.GetCalls() {
		if given := strings.TrimSpace(c.GetArguments()); given == "" || given == "null" {
			c.Arguments = "{}"
		}
	}
	people.ProviderJson = ""
	for _, c := range people.GetCalls() {
		if c.GetBrokenArguments() != "" {
			c.Arguments, c.BrokenArguments = c.GetBrokenArguments(), ""
		}
	}
	if !proto.Equal(want, people) {
		e.world.fail("what a model answered is what is recorded", "%s has %v, answered was %v", where, a, call.answer)
	}
}
