package godriver

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// script is what handlers do: for each prompt, agent or tool a list with one entry
// an execution, of which the last is repeated.
type script struct {
	Turns        map[string][]turnAct `json:"turns"`
	Agents       map[string][]turnAct `json:"agents"`
	Tools        map[string][]toolAct `json:"tools"`
	Capacity     int                  `json:"capacity"`
	AllowUnknown bool                 `json:"allow_unknown"`
	GraceMS      int                  `json:"drain_ms"`
	// TimeoutMS bounds a handler.
	TimeoutMS int `json:"handler_ms"`
}

// turnAct is one execution of a turn, in this order.
type turnAct struct {
	Rounds  []round                    `json:"rounds"`
	Steps   []stepCall                 `json:"steps"`
	Set     map[string]json.RawMessage `json:"set"`
	Partial string                     `json:"partial"`
	Hold    string                     `json:"hold"`
	Raise   string                     `json:"raise"`
	Fail    *failure                   `json:"fail"`
	reply
}

type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Final   bool   `json:"non_retryable"`
}

// toolAct is one execution of a tool.
type toolAct struct {
	// PastDeadline makes the tool wait until the deadline of its call has passed, and report that.
	PastDeadline bool            `json:"late"`
	Hold         string          `json:"hold"`
	Raise        string          `json:"raise"`
	Error        *fault          `json:"error"`
	Result       json.RawMessage `json:"result"`
	// Seen is a tool. The result is whether the ledger has a call of it with the key of the reconciled call.
	Seen string `json:"seen"`
}

// player plays a script and reports what it does.
type player struct {
	script script
	out    *output
	points *holdPoints
	ledger string

	mu    sync.Mutex
	count map[string]int
}

func (d *driver) player(s script) *player {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &player{script: s, out: d.out, points: d.holdPoints, ledger: d.ledger, count: map[string]int{}}
}

// next gives the act of the execution that begins.
func next[T any](p *player, kind, name string, acts []T) T {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.count[kind+name]
	p.count[kind+name]++
	return acts[min(n, len(acts)-1)]
}

// turn executes a turn.
func (p *player) turn(ctx context.Context, h workerHost, info *pawlv1.GetTurnResponse, act turnAct) (reply, error) {
	ref := info.GetTurn()
	p.out.event(map[string]any{
		"kind": "turn", "prompt": info.GetPrompt(), "state": ref.GetState(), "visit": ref.GetVisit(), "attempt": ref.GetAttempt(),
		"steps": canonFields(info.ProtoReflect())["steps"],
	})
	if err := p.rounds(ctx, h, act.Rounds); err != nil {
		return reply{}, err
	}
	for _, call := range act.Steps {
		if call.PayloadJSON != "" {
			call.Payload = json.RawMessage(call.PayloadJSON)
		}
		result, err := h.step(ctx, call)
		p.stepped(call.Tool, result, err)
		if err != nil && !call.Catch {
			return reply{}, err
		}
	}
	if act.Set != nil {
		if err := h.set(ctx, act.Set); err != nil {
			return reply{}, err
		}
	}
	if act.Partial != "" {
		if err := h.partial(ctx, act.Partial); err != nil {
			return reply{}, err
		}
	}
	if err := p.hold(ctx, act.Hold); err != nil {
		return reply{}, err
	}
	switch {
	case act.Raise != "":
		return reply{}, errors.New(act.Raise)
	case act.Fail != nil:
		return reply{}, &pawl.Failure{Code: act.Fail.Code, Message: act.Fail.Message, Final: act.Fail.Final, RejectsAnswer: true}
	}
	return act.reply, nil
}

func (p *player) stepped(tool, result string, err error) {
	event := map[string]any{"kind": "stepped", "tool": tool, "result": parsed(result), "error": ""}
	if failed, ok := errors.AsType[*pawl.Failure](err); ok {
		event["error"] = failed.Code
	} else if err != nil {
		event["error"] = faultOf(err)["reason"]
	}
	p.out.event(event)
}

// hold waits until the runner releases the hold, or the work is not wanted any more.
func (p *player) hold(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	released := p.points.named(name)
	p.out.event(map[string]any{"kind": "holding", "name": name})
	select {
	case <-released:
		return nil
	case <-ctx.Done():
		p.out.event(map[string]any{"kind": "revoked", "name": name})
		return ctx.Err()
	}
}

// toolCall is what a tool receives about its call.
type toolCall struct {
	payload string
	step    uint32
	attempt int32
	// once is the idempotency key.
	once string
	// deadline is the time from which the outcome of the call is unknown.
	deadline time.Time
}

// tool executes a step.
func (p *player) tool(ctx context.Context, name string, c toolCall) (json.RawMessage, error) {
	act := next(p, "tool ", name, p.actsOf(name))
	// The line comes first: the runner may kill this process when it reads the event.
	line := map[string]any{"tool": name, "step": c.step, "attempt": c.attempt, "payload": parsed(c.payload), "key": c.once}
	if err := p.enter(line); err != nil {
		return nil, err
	}
	p.out.event(map[string]any{
		"kind": "tool", "tool": name, "payload": parsed(c.payload), "step": c.step, "attempt": c.attempt, "idempotency_key": c.once,
	})
	if act.Seen != "" {
		return p.isInLedger(act.Seen, c.payload)
	}
	if err := p.pass(ctx, "effect"); err != nil {
		return nil, err
	}
	if act.PastDeadline {
		ctx = p.waitPastDeadline(ctx, name, c.deadline)
	}
	if err := p.hold(ctx, act.Hold); err != nil {
		return nil, err
	}
	switch how := p.points.take("answer"); how {
	case actDie:
		p.points.dieBeforeSend() // Its answer is never sent.
	case actHold:
		if err := p.hold(ctx, "answer"); err != nil {
			return nil, err
		}
	}
	switch {
	case act.Raise != "":
		return nil, errors.New(act.Raise)
	case act.Error != nil:
		return nil, &pawl.Failure{Code: act.Error.Code, Message: act.Error.Message, Unknown: act.Error.Unknown}
	case act.Result == nil:
		return json.RawMessage("null"), nil
	}
	return act.Result, nil
}

// waitPastDeadline waits until the deadline of a call has passed, by the clock and for the worker that makes
// it, and gives a context that goes on all the same.
func (p *player) waitPastDeadline(ctx context.Context, tool string, deadline time.Time) context.Context {
	<-time.After(time.Until(deadline))
	if _, bound := ctx.Deadline(); bound {
		<-ctx.Done()
	}
	p.out.event(map[string]any{"kind": "late", "tool": tool})
	return context.WithoutCancel(ctx)
}

// enter writes down outside that a tool was called, or a model, in one write.
func (p *player) enter(entry map[string]any) error {
	line, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(p.ledger, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

func (p *player) actsOf(tool string) []toolAct { return p.script.Tools[tool] }

// holdPoints are points at which handlers wait, by name.
type holdPoints struct {
	mu     sync.Mutex
	points map[string]chan struct{}
	// actions is what the next one that comes to a point is to do.
	actions map[string]string
	// silent means that the process dies before it sends another message.
	silent bool
}

func newHolds() *holdPoints {
	return &holdPoints{points: map[string]chan struct{}{}, actions: map[string]string{}}
}

func (h *holdPoints) named(name string) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.points[name] == nil {
		h.points[name] = make(chan struct{})
	}
	return h.points[name]
}

// release lets those go on that wait at a point, and all that come to it.
func (d *driver) release(_ context.Context, a args) (any, error) {
	point := d.holdPoints.named(a.Name)
	select {
	case <-point:
	default:
		close(point)
	}
	return nil, nil
}
