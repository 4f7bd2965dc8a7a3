package delivery_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/delivery"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packs"
	"github.com/pawl-dev/pawl/internal/runtime/query"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/test/testkit"
)

const pack = `{
  "id": "outer", "name": "Outer", "version": "1.0.0",
  "template_engine": {"version": "v1", "syntax": "{{variable}}"},
  "prompts": {
    "lead": {"id": "lead", "name": "Lead", "version": "1.0.0", "system_template": "Lead.", "tools": ["helper", "run"]},
    "helper": {"id": "helper", "name": "Helper", "version": "1.0.0", "system_template": "Help."}
  },
  "tools": {"run": {"name": "run", "description": "Runs"}},
  "agents": {"entry": "lead", "members": {
    "lead": {"description": "Leads"}, "helper": {"description": "Helps"}
  }},
  "workflow": {
    "version": 2, "entry": "work",
    "engine": {"budget": {"max_wall_time_sec": 3600}, "x_pawl": {"tools": {"helper": {"attempts": 2}}}},
    "states": {"work": {"prompt_task": "lead", "on_event": {"Again": "work", "Done": "end"}}, "end": {"prompt_task": "lead", "terminal": true}}
  }
}`

var admin = runtime.Principal{Subject: "admin", Scopes: runtime.ScopeAdmin}

// rig is an engine with its outbox, over a store in memory.
type rig struct {
	*services.Runtime
	t      *testing.T
	ctx    context.Context
	store  *testkit.Store
	agent  *agent
	giveUp time.Duration
	// allow is the operator's list; nil admits all.
	allow []string
	// life ends with the process, which stop ends.
	life context.Context
	stop func()
	run  string
	ids  *testkit.IDs
}

func newRig(t *testing.T, a *agent) *rig {
	t.Helper()
	return newRigOf(t, a, pack)
}

func newRigOf(t *testing.T, a *agent, pack string) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	r := &rig{t: t, ctx: ctx, store: testkit.StoreFor(t), agent: a, ids: &testkit.IDs{}}
	r.open()
	if _, err := r.RegisterPack(ctx, packs.RegisterRequest{Call: runtime.Call{Principal: admin}, Document: []byte(pack)}); err != nil {
		t.Fatal(err)
	}
	answer, err := r.StartRun(ctx, runtime.StartRequest{Call: runtime.Call{Principal: admin}, Pack: "outer", Execution: machine.Caller})
	if err != nil {
		t.Fatal(err)
	}
	r.run = answer.RunID
	t.Cleanup(func() {
		r.stop()
		if err := r.store.Check(); err != nil {
			t.Errorf("the store is damaged: %v", err)
		}
	})
	return r
}

// open starts engine and outbox, as a process does.
func (r *rig) open() {
	r.t.Helper()
	allow := r.allow
	if allow == nil {
		allow = []string{"*"}
	}
	engine, err := services.New(services.Config{Config: runtime.Config{
		Store: r.store, Clock: runtime.SystemClock{}, IDs: r.ids, AllowTools: allow,
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	box, err := delivery.New(delivery.Config{Delegations: engine.Delegations, Subscriptions: engine.Subscriptions, Directory: r.agent, Pause: time.Millisecond, MaxPause: 2 * time.Millisecond, GiveUp: max(r.giveUp, time.Millisecond)})
	if err != nil {
		r.t.Fatal(err)
	}
	engine.Attach(runtime.Hooks{OnCommit: []runtime.Observer{box}})
	ctx, cancel := context.WithCancel(r.ctx)
	var loops sync.WaitGroup
	loops.Go(func() { _ = engine.Run(ctx) })
	loops.Go(func() { _ = box.Run(ctx) })
	r.Runtime, r.life, r.stop = engine, ctx, func() { cancel(); loops.Wait() }
}

// restart is the death of the process and its next life.
func (r *rig) restart() {
	r.t.Helper()
	r.store.Crash()
	r.stop()
	r.store = r.store.Reopen()
	r.open()
}

func (r *rig) ref() runtime.RunRef {
	return runtime.RunRef{Call: runtime.Call{Principal: admin}, RunID: r.run}
}

// delegate asks for calls of the agent, by message.
func (r *rig) delegate(messages ...string) {
	r.t.Helper()
	var requests []machine.StepRequest
	for _, m := range messages {
		payload, _ := json.Marshal(map[string]any{"message": m, "variables": map[string]string{"for": m}})
		requests = append(requests, machine.StepRequest{Tool: "helper", Payload: payload})
	}
	view, err := r.GetTurn(r.ctx, r.ref())
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.RequestSteps(r.ctx, runtime.StepsRequest{TurnCall: runtime.TurnCall{RunRef: r.ref(), TurnToken: view.Token}, Requests: requests}); err != nil {
		r.t.Fatal(err)
	}
}

// awaitState watches the run until ok says so of it.
func (r *rig) awaitState(what string, ok func(*machine.State) bool) *machine.State {
	r.t.Helper()
	w, err := r.Watch(r.ctx, streams.Request{Call: runtime.Call{Principal: admin}, Follow: true, Filter: streams.Filter{RunID: r.run, Kinds: allKinds}})
	if err != nil {
		r.t.Fatal(err)
	}
	defer w.Close()
	for {
		view, err := r.GetRun(r.ctx, query.GetRunRequest{RunRef: r.ref()})
		if err != nil {
			r.t.Fatal(err)
		}
		if ok(view.State) {
			return view.State
		}
		if _, err := w.Next(r.ctx); err != nil {
			r.t.Fatalf("%s did not happen: %v; %+v", what, err, view.State.Steps)
		}
	}
}

var allKinds = []machine.RecordKind{
	machine.RecTransition, machine.RecStepRequested, machine.RecStepDecided, machine.RecStepResolved, machine.RecStepDelegated,
	machine.RecInputReceived, machine.RecStepCancelled, machine.RecEnded,
}

func isAnswered(n int) func(*machine.State) bool {
	return func(s *machine.State) bool {
		for i := range s.Steps {
			if s.Steps[i].Status == machine.StepStatusPending {
				return false
			}
		}
		return len(s.Steps) == n
	}
}

// steps are the visit's with their answers.
func (r *rig) steps() []history.StepView {
	r.t.Helper()
	view, err := r.GetTurn(r.ctx, r.ref())
	if err != nil {
		r.t.Fatal(err)
	}
	return view.Steps
}

// TestFanOut: several delegations are pending at once, their answers stand in
// the order of the requests, and one that fails loses none of the others.
func TestFanOut(t *testing.T) {
	t.Parallel()
	r := newRig(t, newAgent(func(_ int, m machine.AgentMessage) machine.AgentTask {
		if m.Parts[0].Text == "b" {
			return machine.AgentTask{State: machine.AgentFailed, Status: "ESCALATED", Reason: "turn_failed", Message: text("no idea")}
		}
		task := doneOutcome(0, m)
		task.Artifacts = []machine.AgentArtifact{{Name: "note", Parts: []machine.Part{{Kind: machine.PartJSON, Data: []byte(`{"n":1}`)}}}}
		return task
	}))
	r.delegate("a", "b", "c")
	r.awaitState("the answers", isAnswered(3))
	steps := r.steps()
	for i, want := range []string{"a", "", "c"} {
		if want == "" {
			if remote := steps[i].Remote; remote == nil || remote.TaskID == "" || remote.CardURL == "" {
				t.Errorf("the failed step's task is not known: %+v", remote)
			}
			if steps[i].Status != machine.StepStatusError || steps[i].Error.Code != "turn_failed" || steps[i].Error.Message != "no idea" || steps[i].Attempt != 1 {
				t.Errorf("step %d: %+v", i+1, steps[i])
			}
			continue
		}
		var got struct {
			Status, Output string
			Artifacts      map[string]any
			TaskID         string `json:"task_id"`
			CardURL        string `json:"card_url"`
		}
		if err := json.Unmarshal(steps[i].Result, &got); err != nil || got.Output != want || got.Status != "COMPLETED" || got.TaskID == "" || got.CardURL == "" || got.Artifacts["note"] == nil {
			t.Errorf("step %d: %s, %v", i+1, steps[i].Result, err)
		}
	}
	for _, m := range r.agent.messages() {
		if !strings.HasPrefix(m.ID, r.run+"/") || !strings.HasSuffix(m.ID, "/1") || string(m.Variables) != fmt.Sprintf(`{"for":%q}`, m.Parts[0].Text) {
			t.Errorf("message %+v", m)
		}
	}
}

// TestLostAnswers: a message whose answer is lost is sent again, and the agent
// works once.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	a := newAgent(doneOutcome)
	var mu sync.Mutex
	failures := 5
	a.lostAnswer = func(string) error {
		mu.Lock()
		defer mu.Unlock()
		if failures--; failures >= 0 {
			return errUnreachable
		}
		return nil
	}
	r := newRig(t, a)
	r.stop()
	r.giveUp = time.Minute
	r.open()
	r.delegate("once")
	r.awaitState("the answer", isAnswered(1))
	if got := r.agent.messages(); len(got) != 1 {
		t.Fatalf("the agent took %d messages", len(got))
	}
}

// TestRestarts: the sidecar dies after each thing that it knows of a delegation;
// the agent works once, and its result arrives.
func TestRestarts(t *testing.T) {
	t.Parallel()
	a := newAgent(func(int, machine.AgentMessage) machine.AgentTask {
		return machine.AgentTask{State: machine.AgentWorking}
	})
	r := newRig(t, a)
	r.delegate("slow")
	r.restart()
	noted := func(s *machine.State) bool { return len(s.Steps) == 1 && s.Steps[0].Remote != nil }
	r.awaitState("the task's id", noted)
	r.restart()
	a.set("task-1", machine.AgentTask{State: machine.AgentAsks, Message: text("which?")})
	asked := r.awaitState("the question", func(s *machine.State) bool { return s.Awaiting == machine.AwaitInput })
	if asked.Status != machine.Waiting || asked.Steps[0].Remote.TaskID != "task-1" {
		t.Fatalf("asked %+v", asked)
	}
	r.restart()
	a.mu.Lock()
	a.play = func(int, machine.AgentMessage) machine.AgentTask {
		return machine.AgentTask{State: machine.AgentWorking}
	}
	a.mu.Unlock()
	clerk := runtime.RunRef{RunID: r.run, Call: runtime.Call{Principal: runtime.Principal{Subject: "clerk", Scopes: runtime.ScopeRunsWrite}}}
	if _, err := r.SendInput(r.ctx, runtime.InputRequest{RunRef: clerk, Parts: text("that one"), Step: 1}); err != nil {
		t.Fatal(err)
	}
	r.restart()
	r.awaitState("the answer's way", func(s *machine.State) bool { return s.Steps[0].Remote.Answer == 0 })
	r.restart()
	a.set("task-1", machine.AgentTask{State: machine.AgentCompleted, Output: text("found")})
	r.awaitState("the result", isAnswered(1))
	got := a.messages()
	if len(got) != 2 || got[0].Parts[0].Text != "slow" || got[1].Parts[0].Text != "that one" || got[1].TaskID != "task-1" {
		t.Fatalf("the agent took %+v", got)
	}
	if who := got[1].Answerer; who.Name != "clerk" || !slices.Equal(who.Scopes, []string{"runs:write"}) || got[0].Answerer.Name != "" {
		t.Errorf("the answer is the word of %+v, the message that of %+v", who, got[0].Answerer)
	}
	if step := r.steps()[0]; !strings.Contains(string(step.Result), "found") {
		t.Fatalf("step %+v", step)
	}
}

// TestAttempts: a failure that the agent confirms is tried again under a new
// message; what is final is not.
func TestAttempts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		task     machine.AgentTask
		attempts int
		code     string
	}{
		{"failed", machine.AgentTask{State: machine.AgentFailed, Message: text("x")}, 2, "failed"},
		{"rejected", machine.AgentTask{State: machine.AgentRejected, Reason: "rejected", Status: "FAILED"}, 2, "rejected"},
		{"budget", machine.AgentTask{State: machine.AgentFailed, Status: "BUDGET_EXHAUSTED", Reason: "max_visits:fix"}, 1, "max_visits:fix"},
		{"cancelled", machine.AgentTask{State: machine.AgentCancelled}, 1, "cancelled"},
		{"too large", machine.AgentTask{State: machine.AgentCompleted, Output: text(strings.Repeat("x", 10<<20))}, 1, "AGENT_RESULT_TOO_LARGE"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, newAgent(func(int, machine.AgentMessage) machine.AgentTask { return tt.task }))
			r.delegate("try")
			r.awaitState("the end", isAnswered(1))
			if step := r.steps()[0]; step.Error.Code != tt.code || step.Attempt != tt.attempts || len(r.agent.messages()) != tt.attempts {
				t.Fatalf("step %+v after %d messages", step, len(r.agent.messages()))
			}
		})
	}
}

// TestFaults: an agent that breaks the rules, or is not there, fails the step.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		spoil func(*agent)
		code  string
	}{
		{"out of reach", func(a *agent) { a.fault = func(string) error { return errUnreachable } }, "AGENT_UNREACHABLE"},
		{"refuses", func(a *agent) {
			a.fault = func(string) error {
				return &machine.AgentFault{Kind: machine.AgentRefuses, Code: "AGENT_REFUSED", Message: "no such skill"}
			}
		}, "AGENT_REFUSED"},
		{"changes its task", func(a *agent) {
			a.play = func(int, machine.AgentMessage) machine.AgentTask {
				return machine.AgentTask{State: machine.AgentWorking}
			}
			a.fault = func(call string) error {
				if call == "follow" {
					a.set("task-1", machine.AgentTask{State: machine.AgentWorking})
					a.mu.Lock()
					a.tasks["task-1"] = &machine.AgentTask{ID: "another", State: machine.AgentCompleted}
					a.mu.Unlock()
				}
				return nil
			}
		}, "AGENT_PROTOCOL"},
		{"forgets its task", func(a *agent) {
			a.play = func(int, machine.AgentMessage) machine.AgentTask {
				return machine.AgentTask{State: machine.AgentWorking}
			}
			a.fault = func(call string) error {
				if call == "follow" {
					a.mu.Lock()
					clear(a.byID)
					delete(a.tasks, "task-1")
					a.tasks["other"] = &machine.AgentTask{}
					a.mu.Unlock()
				}
				return nil
			}
		}, "AGENT_NO_TASK"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(doneOutcome)
			tt.spoil(a)
			r := newRig(t, a)
			r.delegate("try")
			r.awaitState("the failure", isAnswered(1))
			if step := r.steps()[0]; step.Error.Code != tt.code {
				t.Fatalf("step %+v", step)
			}
		})
	}
}

// TestCancel: leaving the visit cancels the agent's task, also over a restart,
// and leaves no row behind.
func TestCancel(t *testing.T) {
	t.Parallel()
	a := newAgent(func(int, machine.AgentMessage) machine.AgentTask {
		return machine.AgentTask{State: machine.AgentWorking}
	})
	r := newRig(t, a)
	r.delegate("one", "two")
	r.awaitState("both tasks' ids", func(s *machine.State) bool {
		return len(s.Steps) == 2 && s.Steps[0].Remote != nil && s.Steps[1].Remote != nil
	})
	if _, err := r.CancelRun(r.ctx, runtime.ControlRequest{RunRef: r.ref()}); err != nil {
		t.Fatal(err)
	}
	r.restart()
	// The outbox removes the rows once the agent knows, and may tell it again where a row stayed.
	r.untilSent(machine.OutboxCancel)
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.Sort(a.ended)
	if got := slices.Compact(a.ended); len(got) != 2 {
		t.Errorf("the agent was told of %q, want both tasks", got)
	}
}

// untilSent waits until no row of a kind is left.
func (r *rig) untilSent(kind machine.OutboxKind) {
	r.t.Helper()
	for rows := 1; rows > 0; {
		left, err := r.Delegations.Outbox(r.ctx, kind, 1)
		if err != nil {
			r.t.Fatal(err)
		}
		rows = len(left)
	}
}

// TestCancelOfAnUnansweredMessage: the agent took the message, its answer was lost
// until the run was cancelled. The message is sent once more, as the same message,
// to learn the task, which is cancelled then.
func TestCancelOfAnUnansweredMessage(t *testing.T) {
	t.Parallel()
	a := newAgent(func(int, machine.AgentMessage) machine.AgentTask {
		return machine.AgentTask{State: machine.AgentWorking}
	})
	var answers atomic.Bool
	a.lostAnswer = func(string) error {
		if answers.Load() {
			return nil
		}
		return errUnreachable
	}
	r := newRig(t, a)
	r.stop()
	r.giveUp = time.Minute
	r.open()
	r.delegate("one")
	if err := a.await(r.ctx, func() bool { return len(a.taken) == 1 }); err != nil {
		t.Fatal(err)
	}
	if _, err := r.CancelRun(r.ctx, runtime.ControlRequest{RunRef: r.ref()}); err != nil {
		t.Fatal(err)
	}
	r.restart()
	answers.Store(true)
	if err := a.await(r.ctx, func() bool { return len(a.ended) >= 1 }); err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	walls := a.walls[r.run+"/1/1"]
	if len(a.taken) != 1 || len(walls) < 2 || slices.Min(walls) != slices.Max(walls) || walls[0] < 3000*time.Second {
		t.Errorf("the agent took %d messages, whose wall times are %v", len(a.taken), walls)
	}
}
