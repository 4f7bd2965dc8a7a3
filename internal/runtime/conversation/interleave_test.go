package conversation

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules/invariant"
)

// journal is the store of one run, in memory.
type journal struct {
	history.Store
	entries []machine.Entry
	rows    []machine.MessageRow
}

func (j *journal) Entry(_ context.Context, _ uint32, _ string, seq uint64) (machine.Entry, error) {
	for i := len(j.entries) - 1; i >= 0; i-- {
		if e := &j.entries[i]; seq >= e.First && seq < e.First+uint64(len(e.Records)) {
			return *e, nil
		}
	}
	return machine.Entry{}, machine.ErrNoRecord
}

func (j *journal) MessageRows(_ context.Context, _ uint32, _, state string, from, next uint64) (rows []machine.MessageRow, err error) {
	for _, row := range j.rows {
		if row.State == state && row.N >= from && row.N < next {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// talked is a run, an executor of its turns and people who speak to it, at random.
type talked struct {
	t       *testing.T
	rnd     *rand.Rand
	g       *machine.Graph
	j       *journal
	history *history.Reader
	s       *machine.State
	inner   execution
	// expectedTexts are the texts that a model has to hear, by their record; asked how many requests
	// were looked at.
	expectedTexts map[uint64]string
	requestCount  int
}

// execution is what an executor knows of the turn that it is at.
type execution struct {
	turn  uint64
	round int
	// next are the messages of the next request, follows the last answer.
	next    []machine.ModelMessage
	follows uint32
	step    uint32
	calls   int
}

const chatState = "a"

func newTalked(t *testing.T, seed uint64) *talked {
	r := &talked{t: t, rnd: rand.New(rand.NewPCG(seed, 3)), j: &journal{}, expectedTexts: map[uint64]string{}}
	r.history = history.New(r.j)
	r.g = &machine.Graph{
		Digest: "d", Entry: chatState, Tools: map[string]machine.Tool{"look": {}, "card": {Agent: true}},
		States:  map[string]*machine.Node{chatState: {Name: chatState, Prompt: "p", OnEvent: map[string]string{"Go": "b"}}, "b": {Name: "b", Terminal: true}},
		Prompts: map[string]*machine.Prompt{"p": {Tools: map[string]bool{"look": true, "card": true}}},
	}
	r.mustStep(machine.Start{RunID: "R", Execution: machine.Caller, Input: text("hello")})
	return r
}

func text(s string) []machine.Part { return []machine.Part{{Kind: machine.PartText, Text: s}} }

// apply gives a command to the machine; false: it was refused.
func (r *talked) apply(c machine.Command) bool {
	r.t.Helper()
	if r.s != nil {
		var err error
		if c, err = Resolve(context.Background(), r.history, r.key(), r.s, c); err != nil {
			return false
		}
	}
	result, err := rules.Step(r.g, r.s, machine.Input{At: 1, Command: c, Semantics: machine.Current})
	if err != nil {
		return false
	}
	r.s = result.State
	if b := result.Batch; b != nil {
		r.j.entries = append(r.j.entries, machine.Entry{First: b.Prev + 1, Input: b.Input, Records: b.Records})
		r.j.rows = append(r.j.rows, b.Messages...)
		for _, rec := range b.Records {
			if steered, ok := rec.Body.(*machine.Steered); ok {
				r.expectedTexts[rec.Seq] = steered.Text
			}
		}
	}
	if err := invariant.Check(r.s, r.g); err != nil {
		r.t.Fatalf("%T: %v", c, err)
	}
	return true
}

func (r *talked) mustStep(c machine.Command) {
	r.t.Helper()
	if !r.apply(c) {
		r.t.Fatalf("%T was refused", c)
	}
}

func (r *talked) key() machine.RunKey { return machine.RunKey{ID: "R"} }

// actOnce is one thing that happens.
func (r *talked) actOnce(n int) {
	switch r.rnd.IntN(10) {
	case 0:
		when := []machine.SteerWhen{machine.NextModelCall, machine.SteerNow, machine.NextTurn}[r.rnd.IntN(3)]
		r.apply(machine.Steer{Text: fmt.Sprintf("words %d", n), When: when})
	case 1:
		r.mustStep(machine.Stop{})
	case 2:
		r.apply(machine.SendInput{Parts: text("input")})
	case 3:
		r.inner = execution{} // it is lost, and another begins the turn again
	case 4, 5:
		r.resolve()
	default:
		r.execute()
	}
}

// resolve answers a step that is pending.
func (r *talked) resolve() {
	for _, p := range r.s.Steps {
		if p.Model == nil && p.Status == machine.StepStatusPending && r.rnd.IntN(2) == 0 {
			r.mustStep(machine.ResolveStep{Step: p.Step, Tool: p.Tool, Attempt: p.Attempt, OK: true, Result: []byte(`1`)})
			return
		}
	}
}

// execute is the next thing that an executor does.
func (r *talked) execute() {
	turn := r.s.Turn
	if turn == nil {
		return
	}
	if r.inner.turn != turn.Seq {
		r.inner = execution{turn: turn.Seq, next: []machine.ModelMessage{{Conversation: &machine.ConversationRange{}}}}
	}
	switch {
	case r.inner.step != 0:
		r.answer()
	case r.inner.calls > 0:
		r.call()
	default:
		r.ask()
	}
}

func (r *talked) ask() {
	x := &r.inner
	x.round++
	asked := &machine.ModelRequest{Model: "m", PreviousStep: machine.StepRef{Step: x.follows}, Messages: x.next}
	r.mustStep(machine.RequestModel{TurnSeq: x.turn, Attempt: 1, Round: x.round, Model: asked, IncludeRequired: true})
	c := machine.RequestModel{Round: x.round}
	step := rules.Round(r.s, &c)
	if x.step = step.Step; step.Status == machine.StepStatusOK {
		x.follows, x.step, x.calls = step.Step, 0, step.Model.Calls
		x.next = []machine.ModelMessage{{Message: &machine.Message{Role: "user", Parts: text("go on")}}}
		return
	}
	r.checkRequest(step)
}

// checkRequest proves that the request dangles nowhere, and says what it has to.
func (r *talked) checkRequest(step *machine.ToolStep) {
	ctx := context.Background()
	request, _, err := r.history.ModelRequest(ctx, r.key(), machine.StepRef{Step: step.Step, Request: step.RequestSeq})
	if err != nil {
		r.t.Fatal(err)
	}
	messages, err := r.history.Messages(ctx, r.key(), request)
	if err != nil {
		r.t.Fatal(err)
	}
	r.requestCount++
	open := map[string]bool{}
	for i, m := range messages {
		if m.Role == "tool" {
			if !open[m.ToolCallID] {
				r.t.Fatalf("message %d answers %q, which nobody asked for: %s", i, m.ToolCallID, describeMessages(messages))
			}
			delete(open, m.ToolCallID)
			continue
		}
		if len(open) > 0 {
			r.t.Fatalf("calls %v have no answer before message %d: %s", open, i, describeMessages(messages))
		}
		for _, id := range callsOf(r.t, m) {
			open[id] = true
		}
	}
	if len(open) > 0 {
		r.t.Fatalf("calls %v have no answer: %s", open, describeMessages(messages))
	}
	for _, h := range r.s.RequiredMessages {
		times := 0
		for _, m := range messages {
			if m.Role == "user" && m.Parts[0].Text == r.expectedTexts[h.Seq] {
				times++
			}
		}
		if h.Seq < step.RequestSeq && !h.Later && times != 1 {
			r.t.Fatalf("%q is said %d times: %s", r.expectedTexts[h.Seq], times, describeMessages(messages))
		}
	}
}

func callsOf(t *testing.T, m machine.Message) (ids []string) {
	if m.ToolCalls == nil {
		return nil
	}
	var calls []struct{ ID string }
	if err := json.Unmarshal(m.ToolCalls, &calls); err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		ids = append(ids, c.ID)
	}
	return ids
}

func describeMessages(messages []machine.Message) (out string) {
	for _, m := range messages {
		out += fmt.Sprintf("\n%s %s %s %v", m.Role, m.ToolCalls, m.ToolCallID, m.Parts)
	}
	return out
}

// answer is what a model says: perhaps calls, perhaps nothing more.
func (r *talked) answer() {
	x := &r.inner
	calls := make([]machine.ModelCall, r.rnd.IntN(4))
	for i := range calls {
		calls[i] = machine.ModelCall{ID: fmt.Sprintf("%d/%d", x.step, i), Name: []string{"look", "card"}[r.rnd.IntN(2)], Arguments: "{}"}
	}
	i := int(x.step)
	for _, p := range r.s.Steps {
		if int(p.Step) == i {
			r.apply(machine.AnswerModel{
				TurnSeq: x.turn, TurnAttempt: 1, Step: x.step, Attempt: p.Attempt, Answer: &machine.ModelAnswer{Parts: text("said"), Calls: calls},
			})
		}
	}
	x.follows, x.step, x.calls = x.step, 0, len(calls)
	if x.next = nil; len(calls) > 0 {
		return
	}
	if r.rnd.IntN(2) == 0 {
		x.next = []machine.ModelMessage{{Message: &machine.Message{Role: "user", Parts: text("go on")}}}
		return
	}
	r.apply(machine.CompleteTurn{TurnSeq: x.turn, Attempt: 1, ConversationThroughStep: x.follows})
}

// call asks for calls of the last answer, or, once all are answered, says what came of them.
func (r *talked) call() {
	x := &r.inner
	var results []machine.ModelMessage
	for i := range x.calls {
		ref := &machine.CallRef{Step: x.follows, Index: i}
		step := r.stepOf(ref)
		if step == nil {
			tool := []string{"look", "card"}[r.rnd.IntN(2)]
			r.apply(machine.RequestSteps{TurnSeq: x.turn, Attempt: 1, Requests: []machine.StepRequest{{Tool: tool, Payload: []byte("{}"), Call: ref}}})
			return
		}
		if step.AnswerSeq == 0 {
			return
		}
		results = append(results, machine.ModelMessage{Result: &machine.ToolResult{AnsweredStep: machine.StepRef{Step: step.Step}, CallID: fmt.Sprintf("%d/%d", x.follows, i)}})
	}
	x.next, x.calls = results, 0
}

func (r *talked) stepOf(ref *machine.CallRef) *machine.ToolStep {
	for i := range r.s.Steps {
		if p := &r.s.Steps[i]; p.Call != nil && *p.Call == *ref {
			return p
		}
	}
	return nil
}

// TestInterleavings: however people speak to a run, stop it and let it go on while models and
// tools answer, no request has a call of a model without an answer, and each has what it has
// to, once. PAWL_STEERED_RUNS says how many runs are made (make trust: 10 000).
func TestInterleavings(t *testing.T) {
	t.Parallel()
	runs := 1000
	if n, err := strconv.Atoi(os.Getenv("PAWL_STEERED_RUNS")); err == nil {
		runs = n
	}
	asked := 0
	for seed := range uint64(runs) {
		r := newTalked(t, seed)
		for n := range 40 {
			r.actOnce(n)
		}
		asked += r.requestCount
	}
	if asked < runs {
		t.Errorf("%d requests in %d runs", asked, runs)
	}
	t.Logf("tried: %d interleavings, %d requests", runs, asked)
}
