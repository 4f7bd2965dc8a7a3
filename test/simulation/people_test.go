//go:build sim

package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
)

// people start runs, answer, decide, cancel, and repeat earlier calls. A repeat with the same id must
// have the same answer and no second effect.
type people struct {
	world *world
	calls int
	busy  sync.WaitGroup

	// runs are the acknowledged runs, by node. asked are all calls with an id.
	runs  map[*node][]string
	asked []*ask
	ids   int

	history history
}

// ask is a call with an id, which may be repeated.
type ask struct {
	node *node
	name string
	do   func(ctx context.Context, p *process) (runtime.Answer, error)
	// seen is the call in the history.
	seen callSeen
	// first is the answer that was acknowledged first.
	first *runtime.Answer
}

func newPeople(w *world) *people { return &people{world: w, runs: map[*node][]string{}} }

func (pp *people) wait() { pp.busy.Wait() }

func (pp *people) id() string {
	pp.ids++
	return fmt.Sprintf("id-%d", pp.ids)
}

// These are the callers.
var (
	driver   = runtime.Call{Principal: runtime.Principal{Subject: "driver", Scopes: policy.RunsRead | policy.RunsWrite}}
	approver = runtime.Call{Principal: runtime.Principal{Subject: "approver", Scopes: policy.RunsRead | policy.RunsWrite | policy.EventsExternal}}
)

// patience is how long a caller waits.
const patience = 20 * time.Second

// call makes a call in its own goroutine, as callers do. An answer of a process after its death is
// discarded.
func (pp *people) call(n *node, name string, do func(ctx context.Context, p *process) error) {
	p := n.process()
	if p == nil {
		return
	}
	pp.calls++
	pp.busy.Go(func() {
		ctx, cancel := context.WithTimeout(p.ctx, patience)
		defer cancel()
		err := do(ctx, p)
		if p.ctx.Err() != nil {
			return
		}
		pp.world.note("%s on %s: %s", name, n.name, told(err))
		pp.judge(name, err)
	})
}

// judge reports errors that no call may have.
func (pp *people) judge(name string, err error) {
	refusal, ok := errors.AsType[*machine.Error](err)
	switch {
	case err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
	case errors.Is(err, machine.ErrIndeterminate):
	case !ok:
		pp.world.fail("errors are typed", "%s: %v", name, err)
	case refusal.Code == machine.CodeInternal || refusal.Code == machine.CodeDataLoss:
		pp.world.fail("no internal errors", "%s: %v", name, err)
	}
}

// `told` returns the text of an error without the parts that differ between lives of a process.
func told(err error) string {
	if err == nil {
		return "ok"
	}
	if refusal, ok := errors.AsType[*machine.Error](err); ok {
		return refusal.Reason
	}
	return err.Error()
}

// ask makes a call that can be repeated and that the history takes.
func (pp *people) ask(n *node, name string, seen callSeen, do func(ctx context.Context, p *process) (runtime.Answer, error)) {
	a := &ask{node: n, name: name, do: do, seen: seen}
	pp.asked = append(pp.asked, a)
	pp.again(a)
}

func (pp *people) again(a *ask) {
	pp.call(a.node, a.name, func(ctx context.Context, p *process) error {
		seen := pp.history.begins(a.seen)
		o := pp.world.oracle(a.node)
		gone := a.first != nil && o.deleted[a.first.RunID]
		answer, err := a.do(ctx, p)
		if p.ctx.Err() != nil {
			return nil
		}
		if gone && err == nil && answer.Disposition != machine.IgnoredUnknownRun {
			pp.world.fail("what was deleted stays deleted", "%s of run %s is answered with record %d", a.name, answer.RunID, answer.Entry.First)
		}
		seen.answered(&answer)
		pp.history.ends(seen, err)
		pp.compare(a, &answer, err)
		if err == nil {
			o.acknowledged(a.name, &answer)
		}
		return err
	})
}

// compare compares the answer of a repeat with the first answer.
func (pp *people) compare(a *ask, answer *runtime.Answer, err error) {
	switch {
	case err != nil && (a.first == nil || passing(err) || judgedAnew(a.first, err)):
	case a.first != nil && (machine.IsDeleted(err) || answer.Disposition == machine.IgnoredUnknownRun) && pp.world.oracle(a.node).deleting[a.first.RunID]:
	case err != nil:
		pp.world.fail("an id has one answer", "%s was answered with record %d, its repeat with %v", a.name, a.first.Entry.First, err)
	case a.first == nil:
		a.first = answer
	case a.first.Entry.Hash != answer.Entry.Hash || a.first.RunID != answer.RunID:
		pp.world.fail("an id has one answer", "%s was answered with record %d of %s, its repeat with record %d of %s",
			a.name, a.first.Entry.First, a.first.RunID, answer.Entry.First, answer.RunID)
	}
}

// judgedAnew reports whether the repeat of a request for steps was refused because of the present state. This
// is correct if one of its calls has not been made yet (docs/reference/semantics.md).
func judgedAnew(first *runtime.Answer, err error) bool {
	_, steps := first.Entry.Input.Command.(machine.RequestSteps)
	refusal, ok := errors.AsType[*machine.Error](err)
	return steps && ok && slices.Contains([]string{"TURN_TOKEN_STALE", "TURN_STALE", "PAUSED", "COMPENSATING"}, refusal.Reason)
}

// passing reports whether the call may have another answer when it is made again.
func passing(err error) bool {
	refusal, ok := errors.AsType[*machine.Error](err)
	return !ok || refusal.Code == machine.CodeUnavailable || refusal.Code == machine.CodeResourceExhausted
}

// act executes an action that a person begins.
func (pp *people) act(k kind, n *node, dice *rand.Rand) {
	switch k {
	case "start":
		pp.start(n, dice)
		return
	case "start till":
		pp.startTill(n, dice)
		return
	case "consider":
		pp.consider(n, dice)
		return
	case "again":
		if len(pp.asked) > 0 {
			pp.again(pp.asked[max(0, len(pp.asked)-1-dice.IntN(12))])
		}
		return
	case "put webhook", "delete webhook", "ack", "list":
		pp.subscribe(k, n, dice)
		return
	}
	if k == "delete" {
		pp.remove(n, dice)
		return
	}
	runs := pp.runs[n]
	if len(runs) == 0 {
		return
	}
	run := runs[max(0, len(runs)-1-dice.IntN(4))]
	switch k {
	case "crowd":
		pp.crowd(n, run, dice)
		return
	case "raise":
		pp.raise(n, run, dice)
		return
	}
	pp.steer(k, n, run, dice)
}

// crowd makes several calls about one run at the same time, or when the current commit is synced.
func (pp *people) crowd(n *node, run string, dice *rand.Rand) {
	for range 2 + dice.IntN(5) {
		dice := rand.New(rand.NewPCG(dice.Uint64(), 1))
		what := pick(dice, kind("emit"), "decide", "input", "pause", "resume", "resolve", "drive", "see", "see", "say", "stop")
		do := func() { pp.steer(what, n, run, dice) }
		if dice.IntN(2) == 0 {
			do()
		} else {
			pp.world.later(pp.world.knobs.sync, do)
		}
	}
}

// see reads the newest records, and then the runs to which they belong.
func (pp *people) see(n *node) {
	pp.call(n, "see", func(ctx context.Context, p *process) error {
		request := streams.Request{Call: operator, AfterCursor: pp.world.readers[n.index()].place(), Filter: streams.Filter{Kinds: allKinds}}
		w, err := p.house.Watch(ctx, request)
		if err != nil {
			return err
		}
		defer w.Close()
		for {
			page, err := w.Next(ctx)
			if errors.Is(err, streams.ErrEnded) {
				return nil
			}
			if err != nil {
				return err
			}
			for i := range page.Records {
				pp.world.answerable(ctx, p, &page.Records[i])
			}
		}
	})
}

// remove deletes a run whose end the oracle has seen.
func (pp *people) remove(n *node, dice *rand.Rand) {
	o := pp.world.oracle(n)
	var ended []string
	for _, run := range pp.runs[n] {
		if s := o.states[run]; s != nil && s.Status.Terminal() {
			ended = append(ended, run)
		}
	}
	if len(ended) == 0 {
		return
	}
	run := ended[dice.IntN(len(ended))]
	who := operator
	who.Principal.Scopes |= policy.RunsDelete
	pp.call(n, "delete "+short(run), func(ctx context.Context, p *process) error {
		gone := o.deleted[run]
		o.deleting[run] = true
		_, again, err := p.house.Retain.DeleteRun(ctx, runtime.RunRef{Call: who, RunID: run})
		if err != nil || p.ctx.Err() != nil {
			return err
		}
		if gone && !again {
			pp.world.fail("what was deleted stays deleted", "run %s is deleted a second time", run)
		}
		o.deleted[run] = true
		return nil
	})
}

func (pp *people) start(n *node, dice *rand.Rand) {
	id, execution := pp.id(), pick(dice, machine.Workers, machine.Workers, machine.Caller, machine.Sidecar)
	input := []machine.Part{{Kind: machine.PartText, Text: id}}
	pp.ask(n, "start "+id, callSeen{object: n.name, id: id, who: driver.Principal, command: machine.Start{}}, func(ctx context.Context, p *process) (runtime.Answer, error) {
		answer, err := p.house.StartRun(ctx, runtime.StartRequest{Call: driver, Pack: "sim", RequestID: id, Execution: execution, Input: input})
		if err == nil && p.ctx.Err() == nil && !answer.Duplicate {
			pp.runs[n] = append(pp.runs[n], answer.RunID)
		}
		return answer, err
	})
}

// steer does something to a run.
func (pp *people) steer(k kind, n *node, run string, dice *rand.Rand) {
	id := pp.id()
	name := fmt.Sprintf("%s %s of %s", k, id, run[len(run)-4:])
	ref := runtime.RunRef{Call: approver, RunID: run}
	event, artifacts := pick(dice, "Approved", "Rejected", "Taken", "Round", "Closed", "Again"), writes(dice)
	seen := callSeen{object: n.name + "/" + run, who: ref.Principal, id: id}
	var do func(ctx context.Context, p *process) (runtime.Answer, error)
	switch k {
	case "emit":
		seen.command = machine.EmitEvent{Event: event, Artifacts: artifacts}
		do = func(ctx context.Context, p *process) (runtime.Answer, error) {
			return p.house.EmitEvent(ctx, runtime.EmitRequest{RunRef: ref, Event: event, EventID: id, Artifacts: artifacts})
		}
	case "decide":
		pp.decide(n, run, id, event)
		return
	case "see":
		pp.see(n)
		return
	case "input":
		seen.command = machine.SendInput{Parts: []machine.Part{{Kind: machine.PartText, Text: id}}}
		do = func(ctx context.Context, p *process) (runtime.Answer, error) {
			return p.house.SendInput(ctx, runtime.InputRequest{RunRef: ref, MessageID: id, Parts: []machine.Part{{Kind: machine.PartText, Text: id}}})
		}
	case "cancel":
		seen.command = machine.Cancel{}
		do = func(ctx context.Context, p *process) (runtime.Answer, error) {
			return p.house.CancelRun(ctx, runtime.ControlRequest{RunRef: ref, ID: id, Cascade: true})
		}
	case "pause":
		seen.command = machine.Pause{}
		do = func(ctx context.Context, p *process) (runtime.Answer, error) {
			return p.house.PauseRun(ctx, runtime.ControlRequest{RunRef: ref, ID: id})
		}
	case "resume":
		seen.command = machine.Resume{}
		do = func(ctx context.Context, p *process) (runtime.Answer, error) {
			return p.house.ResumeRun(ctx, runtime.ControlRequest{RunRef: ref, ID: id})
		}
	case "say":
		pp.say(n, run, id, dice)
		return
	case "stop":
		pp.stop(n, run, id)
		return
	case "resolve":
		pp.resolve(n, run, id, rand.New(rand.NewPCG(dice.Uint64(), 1)))
		return
	case "answer":
		pp.answer(n, run, id, pick(dice, driver, approver))
		return
	case "drive":
		pp.drive(n, run, dice)
		return
	case "talk":
		if s := pp.world.oracle(n).states[run]; s != nil && s.Execution == machine.Caller {
			pp.talk(n, run, dice.Uint64())
		}
		return
	case "fork":
		pp.fork(n, run, dice)
		return
	}
	pp.ask(n, name, seen, do)
}

func writes(dice *rand.Rand) []machine.ArtifactWrite {
	if dice.IntN(3) > 0 {
		return nil
	}
	return []machine.ArtifactWrite{{Name: "note", Value: fmt.Appendf(nil, "note %d", dice.IntN(100))}}
}

// decide answers a gate. If two people decide, one of them is too late.
func (pp *people) decide(n *node, run, id, event string) {
	ref := runtime.RunRef{Call: approver, RunID: run}
	seen := callSeen{object: n.name + "/" + run, who: ref.Principal}
	pp.call(n, "decide "+id, func(ctx context.Context, p *process) error {
		read := pp.history.begins(seen)
		s, err := p.house.StateAt(ctx, ref, 0)
		if p.ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		read.seq = s.Seq
		pp.history.ends(read, nil)
		seen := seen
		seen.id, seen.command = id, machine.EmitEvent{Event: event, ExpectedSeq: s.VisitSeq}
		pp.ask(n, "decided "+id, seen, func(ctx context.Context, p *process) (runtime.Answer, error) {
			return p.house.EmitEvent(ctx, runtime.EmitRequest{RunRef: ref, Event: event, EventID: id, ExpectedSeq: s.VisitSeq})
		})
		return nil
	})
}

// drive executes the turn of a run that its caller executes: a tool call, or its end.
func (pp *people) drive(n *node, run string, dice *rand.Rand) {
	id := pp.id()
	ref := runtime.RunRef{Call: driver, RunID: run}
	step, event := dice.IntN(3) == 0, pick(dice, "Again", "Ask", "Share", "Finish", "")
	tool, used := pick(dice, "charge", "book"), machine.Usage{InputTokens: 10, Model: modelName}
	if s := pp.world.oracle(n).states[run]; s != nil && s.PackID == tillPack {
		tool, used = pick(dice, "buy", "pay", "refund", "runner"), machine.Usage{}
	}
	payload := []byte(wares(tool, id, dice))
	pp.call(n, "turn "+id, func(ctx context.Context, p *process) error {
		turn, err := p.house.GetTurn(ctx, ref)
		if err != nil {
			return err
		}
		call := runtime.TurnCall{RunRef: ref, TurnToken: turn.Token, TurnSeq: turn.Seq, Attempt: turn.Attempt, ID: id}
		if len(turn.Events) == 0 {
			event = ""
		}
		if step && len(turn.Events) > 0 {
			pp.ask(n, "request "+id, callSeen{object: n.name + "/" + run, id: id, who: ref.Principal, command: machine.RequestSteps{}}, func(ctx context.Context, p *process) (runtime.Answer, error) {
				return p.house.RequestSteps(ctx, runtime.StepsRequest{TurnCall: call, Requests: []machine.StepRequest{{Key: id, Tool: tool, Payload: payload}}})
			})
			return nil
		}
		pp.ask(n, "complete "+id, callSeen{object: n.name + "/" + run, id: id, who: ref.Principal, command: machine.CompleteTurn{}}, func(ctx context.Context, p *process) (runtime.Answer, error) {
			return p.house.CompleteTurn(ctx, runtime.CompleteRequest{TurnCall: call, Event: event, Usage: used})
		})
		return nil
	})
}

// resolve answers a step of a run by hand. It answers the current attempt or an earlier one, with a
// result or an error. If a call waits for approval again, it answers the attempt that was made before.
func (pp *people) resolve(n *node, run, id string, dice *rand.Rand) {
	ref := runtime.RunRef{Call: approver, RunID: run}
	ref.Principal.Scopes |= policy.Admin
	pp.call(n, "look for steps "+id, func(ctx context.Context, p *process) error {
		s, err := p.house.StateAt(ctx, ref, 0)
		if err != nil {
			return err
		}
		step, attempt := s.LastStep-uint32(min(dice.IntN(3), int(s.LastStep))), 1
		at := slices.IndexFunc(s.Steps, func(p machine.ToolStep) bool { return p.HeldForApproval() && p.Attempt > 1 })
		if at < 0 {
			at = slices.IndexFunc(s.Steps, func(p machine.ToolStep) bool { return p.Step == step })
		}
		late := false
		if at >= 0 {
			p := &s.Steps[at]
			if strings.Contains(p.Tool, "book") {
				return nil // only the tools know what was done outside
			}
			step, late = p.Step, p.HeldForApproval() && p.Attempt > 1
			attempt = max(1, p.Attempt-dice.IntN(2))
		}
		if step == 0 {
			return nil
		}
		answer := runtime.ResolveRequest{RunRef: ref, Step: step, Attempt: attempt, OK: true, Result: []byte(`"by hand"`), ID: id}
		switch {
		case late:
			answer.Attempt = 1
		case dice.IntN(3) == 0:
			answer.OK, answer.Result, answer.Error = false, nil, machine.Fault{Code: "BY_HAND", Message: id}
		}
		if dice.IntN(8) == 0 {
			answer.Attempt = 0
		}
		pp.ask(n, "resolve "+id, callSeen{object: n.name + "/" + run, id: id, who: ref.Principal, command: machine.ResolveStep{}}, func(ctx context.Context, p *process) (runtime.Answer, error) {
			got, err := p.house.ResolveStep(ctx, answer)
			pp.resolved(&answer, late, err)
			return got, err
		})
		if !answer.OK {
			// A caller without an answer repeats the call. It has no id, so only the attempt shows that
			// it is a repeat.
			answer := answer
			answer.ID = ""
			pp.call(n, "resolve again "+id, func(ctx context.Context, p *process) error {
				_, err := p.house.ResolveStep(ctx, answer)
				return err
			})
		}
		return nil
	})
}

// resolved compares the answer to a resolved step with the attempt that it names.
func (pp *people) resolved(answer *runtime.ResolveRequest, late bool, err error) {
	switch {
	case answer.Attempt == 0 && err == nil:
		pp.world.fail("an answer names its attempt", "an answer to step %d of %s without an attempt is taken", answer.Step, answer.RunID)
	case answer.Attempt > 0 && late && told(err) == "STEP_HELD":
		pp.world.fail("a good answer is taken, of any attempt", "attempt %d of step %d of %s was made, and its answer is refused: %v", answer.Attempt, answer.Step, answer.RunID, err)
	}
}

// answer sends an answer to an agent that asks a question, from a principal that may or may not have
// the right.
func (pp *people) answer(n *node, run, id string, who runtime.Call) {
	ref := runtime.RunRef{Call: who, RunID: run}
	pp.call(n, "look for questions "+id, func(ctx context.Context, p *process) error {
		s, err := p.house.StateAt(ctx, ref, 0)
		if err != nil {
			return err
		}
		for i := range s.Steps {
			if r := s.Steps[i].Remote; r == nil || r.Asking == 0 {
				continue
			}
			step := s.Steps[i].Step
			seen := callSeen{object: n.name + "/" + run, id: id, who: who.Principal, command: machine.SendInput{Step: step}}
			pp.ask(n, "answer "+id+" of "+who.Principal.Name(), seen, func(ctx context.Context, p *process) (runtime.Answer, error) {
				return p.house.SendInput(ctx, runtime.InputRequest{RunRef: ref, Step: step, MessageID: id, Parts: []machine.Part{{Kind: machine.PartText, Text: "yes"}}})
			})
			break
		}
		return nil
	})
}
