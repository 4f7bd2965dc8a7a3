package runtime_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packs"
	"github.com/pawl-dev/pawl/internal/runtime/query"
	"github.com/pawl-dev/pawl/internal/runtime/timetravel"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/test/testkit"
)

var (
	_ runtime.Store = (*testkit.Store)(nil)
	_ runtime.Clock = (*testkit.Clock)(nil)
	_ runtime.IDs   = (*testkit.IDs)(nil)
)

const loopPack = testkit.LoopPack

// The rooms of a rig, whose methods it has.
type travels = timetravel.Service

// rig is an engine over a store in memory.
type rig struct {
	*services.Runtime
	*travels
	t     testing.TB
	store *testkit.Store
	clock *testkit.Clock
	ids   *testkit.IDs
	cfg   services.Config
}

type option func(*services.Config)

func newRig(t testing.TB, options ...option) *rig {
	t.Helper()
	r := &rig{t: t, store: testkit.StoreFor(t), clock: testkit.NewClock(), ids: &testkit.IDs{}}
	r.cfg.Config = runtime.Config{
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
	r.cfg.Subscriptions = r.store
	rooms, err := services.New(r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.Runtime, r.travels = rooms, rooms.TimeTravel
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
	answer, err := r.RegisterPack(context.Background(), packs.RegisterRequest{
		Call: runtime.Call{Namespace: namespace, Principal: everyone}, Document: []byte(document),
	})
	if err != nil {
		r.t.Fatalf("register: %v %v", err, answer.Diagnostics)
	}
}

var (
	everyone = runtime.Anonymous()
	boss     = runtime.Principal{Subject: "boss", Scopes: runtime.ScopeAdmin}
	driver   = runtime.Principal{Subject: "driver", Scopes: runtime.ScopeRunsWrite | runtime.ScopeRunsRead}
	approver = runtime.Principal{Subject: "approver", Scopes: runtime.ScopeEventsExternal}
	reader   = runtime.Principal{Subject: "reader", Scopes: runtime.ScopeRunsRead}
	nobody   = runtime.Principal{Subject: "nobody", Scopes: runtime.ScopePacksWrite}
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
	view, err := r.GetRun(context.Background(), query.GetRunRequest{RunRef: ref(run, everyone), Artifacts: true})
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
	if refusal, ok := errors.AsType[*machine.Error](err); ok {
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

// within is how long a test waits for what must come.
const within = 60 * time.Second

func await[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(within):
		t.Fatalf("no %s came", what)
		panic("unreachable")
	}
}
