package runtime_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/travel"
	"github.com/pawl-dev/pawl/internal/testkit"
)

var (
	_ runtime.Store = (*testkit.Store)(nil)
	_ runtime.Clock = (*testkit.Clock)(nil)
	_ runtime.IDs   = (*testkit.IDs)(nil)
)

// loopPack has a state of each orchestration, an event that stays, tools, and
// artifacts of both modes.
const loopPack = `{
  "id": "loop", "name": "Loop", "version": "1.0.0",
  "template_engine": {"version": "v1", "syntax": "{{variable}}"},
  "fragments": {"tone": "Be {{style}}."},
  "prompts": {
    "worker": {
      "id": "worker", "name": "Worker", "version": "1.0.0",
      "system_template": "Goal: {{goal}}. {{fragments.tone}} Note: {{artifacts.note}} Log: {{artifacts.log}}",
      "variables": [
        {"name": "goal", "type": "string", "required": true},
        {"name": "style", "type": "string", "required": false, "default": "brief"}
      ],
      "tools": ["run_tests", "write_file"],
      "tool_policy": {"max_tool_calls_per_turn": 50}
    },
    "approver": {
      "id": "approver", "name": "Approver", "version": "1.0.0",
      "system_template": "Decide."
    }
  },
  "tools": {
    "run_tests": {"name": "run_tests", "description": "Runs tests", "parameters":
      {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}},
    "write_file": {"name": "write_file", "description": "Writes a file"}
  },
  "workflow": {
    "version": 2, "entry": "work",
    "engine": {
      "budget": {"max_wall_time_sec": 3600},
      "x_pawl": {"timeouts": {"gate": {"after_sec": 60, "event": "TimedOut"}}}
    },
    "states": {
      "work": {
        "prompt_task": "worker", "persistence": "persistent",
        "artifacts": {
          "note": {"type": "text/plain"},
          "log": {"type": "application/json", "mode": "append"}
        },
        "on_event": {"Again": "work", "Ask": "gate", "Share": "desk", "Finish": "done"}
      },
      "gate": {
        "prompt_task": "approver", "orchestration": "external",
        "on_event": {"Approved": "done", "Rejected": "work", "TimedOut": "work"}
      },
      "desk": {
        "prompt_task": "approver", "orchestration": "hybrid",
        "on_event": {"Taken": "work", "Round": "desk"}
      },
      "done": {"prompt_task": "worker", "terminal": true}
    }
  }
}`

// The rooms of a rig, whose methods it has.
type travels = travel.Room

// rig is an engine over a store in memory.
type rig struct {
	*runtime.Engine
	*travels
	t     testing.TB
	store *testkit.Store
	clock *testkit.Clock
	ids   *testkit.IDs
	cfg   runtime.Config
}

type option func(*runtime.Config)

func newRig(t testing.TB, options ...option) *rig {
	t.Helper()
	r := &rig{t: t, store: testkit.NewStore(), clock: testkit.NewClock(), ids: &testkit.IDs{}}
	r.cfg = runtime.Config{
		Store: r.store, Clock: r.clock, IDs: r.ids, AllowTools: []string{"*"},
		Namespaces: map[string]uint32{"other": 7},
	}
	for _, o := range options {
		o(&r.cfg)
	}
	r.open()
	r.register("", loopPack)
	t.Cleanup(func() {
		if err := r.store.Check(); err != nil {
			t.Errorf("the store is damaged: %v", err)
		}
	})
	return r
}

func (r *rig) open() {
	r.t.Helper()
	engine, err := house.New(house.Config{Config: r.cfg})
	if err != nil {
		r.t.Fatal(err)
	}
	r.Engine, r.travels = engine.Engine, engine.Travel
}

// restart is the next process on the same data.
func (r *rig) restart() {
	r.t.Helper()
	r.store = r.store.Reopen()
	r.cfg.Store = r.store
	r.open()
}

// background runs the engine's timers until the test ends.
func (r *rig) background() {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	engine := r.Engine
	go func() {
		defer close(ended)
		_ = engine.Run(ctx)
	}()
	r.t.Cleanup(func() { stop(); <-ended })
}

func (r *rig) register(namespace, document string) {
	r.t.Helper()
	answer, err := r.RegisterPack(context.Background(), runtime.RegisterRequest{
		Call: runtime.Call{Namespace: namespace, Principal: everyone}, Document: []byte(document),
	})
	if err != nil {
		r.t.Fatalf("register: %v %v", err, answer.Diagnostics)
	}
}

var (
	everyone = runtime.Anonymous()
	boss     = runtime.Principal{Name: "boss", Scopes: runtime.ScopeAdmin}
	driver   = runtime.Principal{Name: "driver", Scopes: runtime.ScopeRunsWrite | runtime.ScopeRunsRead}
	approver = runtime.Principal{Name: "approver", Scopes: runtime.ScopeEventsExternal}
	reader   = runtime.Principal{Name: "reader", Scopes: runtime.ScopeRunsRead}
	nobody   = runtime.Principal{Name: "nobody", Scopes: runtime.ScopePacksWrite}
)

func startRequest(id string) runtime.StartRequest {
	return runtime.StartRequest{
		Call: runtime.Call{Principal: everyone}, Pack: "loop", Execution: machine.Caller,
		Variables: []byte(`{"goal": "ship"}`), RequestID: id,
	}
}

func (r *rig) start(id string) runtime.Answer {
	r.t.Helper()
	return r.startWith(startRequest(id))
}

func (r *rig) startWith(req runtime.StartRequest) runtime.Answer {
	r.t.Helper()
	answer, err := r.StartRun(context.Background(), req)
	if err != nil {
		r.t.Fatalf("StartRun: %v", err)
	}
	return answer
}

func ref(run string, p runtime.Principal) runtime.RunRef {
	return runtime.RunRef{Call: runtime.Call{Principal: p}, RunID: run}
}

// emit sends an event as everyone and fails the test if it is refused.
func (r *rig) emit(run, event, id, token string) runtime.Answer {
	r.t.Helper()
	answer, err := r.EmitEvent(context.Background(), runtime.EmitRequest{
		RunRef: ref(run, everyone), Event: event, EventID: id, TurnToken: token,
	})
	if err != nil {
		r.t.Fatalf("EmitEvent %s: %v", event, err)
	}
	return answer
}

func (r *rig) view(run string) runtime.RunView {
	r.t.Helper()
	view, err := r.GetRun(context.Background(), runtime.GetRunRequest{RunRef: ref(run, everyone), Artifacts: true})
	if err != nil {
		r.t.Fatalf("GetRun: %v", err)
	}
	return view
}

func (r *rig) artifact(run, name string) string {
	r.t.Helper()
	for _, a := range r.view(run).Artifacts {
		if a.Name == name {
			return string(a.Value)
		}
	}
	return ""
}

// reason is a refusal's reason, or the error's text.
func reason(err error) string {
	if refusal, ok := errors.AsType[*machine.Refusal](err); ok {
		return refusal.Reason
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

func wantReason(t testing.TB, err error, want string) {
	t.Helper()
	if got := reason(err); got != want {
		t.Fatalf("error is %q (%v), want %q", got, err, want)
	}
}

// transition is the Transition of an answer.
func transition(t testing.TB, answer runtime.Answer) *machine.Transition {
	t.Helper()
	for i := range answer.Entry.Records {
		if tr, ok := answer.Entry.Records[i].Body.(*machine.Transition); ok {
			return tr
		}
	}
	t.Fatalf("no transition among %d records", len(answer.Entry.Records))
	return nil
}
