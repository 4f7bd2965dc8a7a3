package dispatch_test

import (
	stdruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/expr"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/ratelimit"
)

// limit sets one limit. The calls for which the expression has the same value count together.
func (r *rig) limit(source string, concurrent int64) {
	r.t.Helper()
	language, err := ratelimit.Language()
	if err != nil {
		r.t.Fatal(err)
	}
	l := &ratelimit.Limit{ID: "tests", Source: source, Concurrent: concurrent}
	if l.Key, err = language.Compile(l.Source, expr.Text); err != nil {
		r.t.Fatal(err)
	}
	r.Admission.Replace(&ratelimit.Table{Tenant: "tenant", Limits: []*ratelimit.Limit{l}})
}

// until waits until holds returns true because of other goroutines.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for over := time.Now().Add(within); !holds(); stdruntime.Gosched() {
		if time.Now().After(over) {
			t.Fatalf("not so: %s", what)
		}
	}
}

// TestStepsWaitForLimits: the workers get as many of a tool's pending steps as the operator allows at once,
// and the run lists the others as waiting. An answer lets the next step go.
func TestStepsWaitForLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.limit("tool", 1)
	r.background()
	w := r.connect("w")
	w.Credit(3, 8)
	run := r.startWorkers("a").RunID
	turn := w.turn()
	if _, err := w.request(turn, "1", "2", "3"); err != nil {
		t.Fatal(err)
	}
	key := runtime.RunKey{ID: run}
	for left := 2; left >= 0; left-- {
		step := await(t, "a step", w.steps)
		until(t, "the others wait", func() bool { return len(r.Admission.WaitingCalls(key)) == left })
		for _, wait := range r.Admission.WaitingCalls(key) {
			if wait.Tool != "run_tests" || wait.Limits[0] != "tests" {
				t.Errorf("%+v", wait)
			}
		}
		nothing(t, "a second step", w.steps)
		if _, err := w.resolve(step, `1`); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "no place is taken", func() bool { f := r.Admission.Figures(); return len(f) == 1 && f[0].Open == 0 })
}

// TestADoubtedStepLeavesItsPlace: only one call may be open at once, and the outcome of a call becomes
// unknown. The reconcile tool can still be asked, and after its answer the next attempt is made.
func TestADoubtedStepLeavesItsPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.register("", limitedPack(`"run_tests": {"timeout_sec": 1, "attempts": 2, "on_unknown": "reconcile", "reconcile": "write_file"}`))
	r.limit(`"all"`, 1)
	r.background()
	tools := r.connect("tools", toolsOnly)
	tools.Credit(0, 8)
	_, step := r.pendingStep(r.connect("model", modelOnly), tools)
	question := later(r, "question", tools.steps)
	if question.StepLease.Tool != "write_file" || question.StepLease.Step == step.StepLease.Step {
		t.Fatalf("assigned %+v", question.StepLease)
	}
	if _, err := tools.resolve(question, `{"happened": false}`); err != nil {
		t.Fatal(err)
	}
	if got := tools.step(); got.StepLease.Tool != "run_tests" || got.StepLease.Attempt != 2 {
		t.Fatalf("assigned %+v", got.StepLease)
	}
}

// TestALapsedApprovalLeavesItsPlace: the approval of a call expires while the call waits for a place under a
// limit. When the call gets the place, it is held for approval again, and other calls get the place.
func TestALapsedApprovalLeavesItsPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.register("", limitedPack(`"run_tests": {"approve": "payload.path == 'held'"}`))
	r.limit("tool", 1)
	r.background()
	model, tools := r.connect("model", modelOnly), r.connect("tools", toolsOnly)
	tools.Credit(0, 8)
	run := r.startWorkers("a").RunID
	d := model.turn()
	if _, err := model.request(d, "held", "first", "second"); err != nil {
		t.Fatal(err)
	}
	first := tools.step()
	held := r.stepsOf(run)[0]
	if _, err := r.Apply(t.Context(), runtime.Request{RunRef: ref(run, runtime.Principal{Subject: "ann", Scopes: everyone.Scopes}), Command: machine.DecideStep{
		Step: held.Step, Digest: held.Approval.Digest, Verdict: machine.Approved, Expires: r.clock.Now().Add(time.Second).UnixNano(),
	}}); err != nil {
		t.Fatal(err)
	}
	until(t, "both wait", func() bool { return len(r.Admission.WaitingCalls(runtime.RunKey{ID: run})) == 2 })
	r.clock.Advance(2 * time.Second)
	for _, next := range []func() dispatch.StepDelivery{func() dispatch.StepDelivery { return first }, tools.step} {
		step := next()
		if string(step.Step.Payload) == `{"path":"held"}` {
			t.Fatal("the lapsed call went out")
		}
		if _, err := tools.resolve(step, `1`); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "no place is taken", func() bool { f := r.Admission.Figures(); return len(f) == 1 && f[0].Open == 0 })
	if held = r.stepsOf(run)[0]; !held.HeldForApproval() || held.Approval.Verdict != machine.Expired {
		t.Errorf("%+v", held.Approval)
	}
}

// out has a step that a worker holds, under a limit of one open call. A step of another run waits for the
// place.
type out struct {
	*rig
	model, tools *fakeWorker
	run          string
	turn         dispatch.TurnDelivery
	step         dispatch.StepDelivery
}

func newOut(t *testing.T, tools string) *out {
	o := &out{rig: newRig(t)}
	o.register("", limitedPack(tools))
	o.limit(`"all"`, 1)
	o.background()
	o.model, o.tools = o.connect("model", modelOnly), o.connect("tools", toolsOnly, serves("run_tests"))
	o.turn, o.step = o.pendingStep(o.model, o.tools)
	o.run = o.step.StepLease.RunID
	return o
}

func serves(tool string) func(*dispatch.WorkerRequest) {
	return func(req *dispatch.WorkerRequest) { req.Offer.Tools = []string{tool} }
}

// wait makes another run request a call of a tool. This call waits for the place.
func (o *out) wait(id, tool string) (run string) {
	o.t.Helper()
	o.model.Credit(1, 0)
	run = o.startWorkers(id).RunID
	if _, err := o.RequestSteps(o.t.Context(), runtime.StepsRequest{
		TurnCall: o.model.turnCall(o.model.turn()), Requests: []machine.StepRequest{{Tool: tool, Payload: []byte(`{"path":"other"}`)}},
	}); err != nil {
		o.t.Fatal(err)
	}
	until(o.t, "it waits", func() bool {
		w := o.Admission.WaitingCalls(runtime.RunKey{ID: run})
		return len(w) == 1 && w[0].Step == 1 && w[0].Tool == tool
	})
	return run
}

func (o *out) apply(run string, command machine.Command) {
	o.t.Helper()
	if _, err := o.Apply(o.t.Context(), runtime.Request{RunRef: ref(run, everyone), Command: command}); err != nil {
		o.t.Fatal(err)
	}
}

func (o *out) fail(final bool) {
	o.t.Helper()
	if _, err := o.ResolveStep(o.t.Context(), runtime.ResolveRequest{
		RunRef: o.tools.ref(o.run), TurnToken: o.step.StepLease.Token, Step: o.step.StepLease.Step, Tool: "run_tests", Attempt: 1,
		Error: machine.Fault{Code: "DOWN", Message: "down"}, Final: final,
	}); err != nil {
		o.t.Fatal(err)
	}
}

// ways has all ways in which a step leaves its worker.
var ways = map[string]struct {
	tools string
	leave func(*out)
}{
	"answered": {leave: func(o *out) { _, _ = o.tools.resolve(o.step, `1`) }},
	"failed":   {leave: func(o *out) { o.fail(true) }},
	"failed, an attempt follows": {
		tools: `"run_tests": {"attempts": 2}`, leave: func(o *out) { o.fail(false) },
	},
	"out of time":     {tools: `"run_tests": {"timeout_sec": 1}`, leave: func(*out) {}},
	"its worker lost": {leave: func(o *out) { o.tools.Close(true) }},
	"doubted": {
		tools: `"run_tests": {"timeout_sec": 1, "attempts": 2, "on_unknown": "reconcile", "reconcile": "write_file"}`, leave: func(*out) {},
	},
	"doubted, its worker lost": {
		tools: `"run_tests": {"on_unknown": "reconcile", "reconcile": "write_file"}`, leave: func(o *out) { o.tools.Close(true) },
	},
	"escalated":      {tools: `"run_tests": {"timeout_sec": 1, "on_unknown": "escalate"}`, leave: func(*out) {}},
	"its visit left": {leave: func(o *out) { o.model.mustComplete(o.turn, "Again") }},
	"cancelled":      {leave: func(o *out) { o.apply(o.run, machine.Cancel{}) }},
	"steered now":    {leave: func(o *out) { o.apply(o.run, machine.Steer{Text: "no", When: machine.SteerNow}) }},
	"stopped":        {leave: func(o *out) { o.apply(o.run, machine.Stop{}) }},
	"released, and nobody else serves it": {leave: func(o *out) {
		if err := o.tools.ReleaseStep(o.step.StepLease.Token); err != nil {
			o.t.Fatal(err)
		}
	}},
	"released while its run is paused": {leave: func(o *out) {
		o.apply(o.run, machine.Pause{})
		o.tools.Credit(0, 1)
		if err := o.tools.ReleaseStep(o.step.StepLease.Token); err != nil {
			o.t.Fatal(err)
		}
	}},
}

// TestEveryWayGivesThePlaceBack: in each of the ways in which a step leaves its worker, the step that waits
// for its place gets it.
func TestEveryWayGivesThePlaceBack(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOut(t, way.tools)
			spare := o.connect("spare", toolsOnly, serves("write_file"))
			spare.Credit(0, 4)
			run := o.wait("other", "write_file")
			way.leave(o)
			step := later(o.rig, "step of the other run", spare.steps)
			if step.StepLease.RunID != run {
				t.Fatalf("assigned %+v", step.StepLease)
			}
			if _, err := spare.resolve(step, `1`); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestAPlaceThatNobodyTakes: a step waits for a place, and then no worker serves its tool, or its run is
// paused. The step does not delay others; the place goes to the next one.
func TestAPlaceThatNobodyTakes(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]func(*out, *fakeWorker, string){
		"no worker": func(_ *out, second *fakeWorker, _ string) { second.Close(false) },
		"paused":    func(o *out, _ *fakeWorker, run string) { o.apply(run, machine.Pause{}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOut(t, "")
			second := o.connect("second", toolsOnly, serves("write_file"))
			run := o.wait("second", "write_file")
			o.tools.Credit(0, 1)
			third := o.wait("third", "run_tests")
			gone(o, second, run)
			if _, err := o.tools.resolve(o.step, `1`); err != nil {
				t.Fatal(err)
			}
			if step := o.tools.step(); step.StepLease.RunID != third {
				t.Fatalf("assigned %+v", step.StepLease)
			}
			if w := o.Admission.WaitingCalls(runtime.RunKey{ID: run}); len(w) != 0 {
				t.Errorf("the second waits for %+v", w)
			}
		})
	}
}

// limitedPack is the loop pack with these settings of its tools.
func limitedPack(tools string) string {
	pack := strings.Replace(loopPack, `"version": "1.0.0",`, `"version": "2.0.0",`, 1)
	return strings.Replace(pack, `"x_pawl": {`, `"x_pawl": {"tools": {`+tools+`}, `, 1)
}
