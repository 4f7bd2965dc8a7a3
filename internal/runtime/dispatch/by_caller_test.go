package dispatch_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// ownCaller is a caller that makes one call itself, beside a worker that offers the same tool.
type ownCaller struct {
	*asker
	worker *fakeWorker
}

// again restarts the sidecar, with a worker of the tool.
func (o *ownCaller) again() {
	o.t.Helper()
	o.restart()
	o.worker = o.connect("tools", toolsOnly)
	o.renew(false)
}

func (o *ownCaller) own() machine.ToolStep { return o.stepsOf(o.started.RunID)[0] }

// answer answers the call that the caller makes itself.
func (o *ownCaller) answer(ok bool) machine.Disposition {
	o.t.Helper()
	req := runtime.ResolveRequest{
		RunRef: o.req.RunRef, TurnToken: o.req.TurnToken, Step: 1, Tool: "run_tests", Attempt: o.own().Attempt, OK: ok, Metered: true,
	}
	if req.Result = []byte(`1`); !ok {
		req.Result, req.Error = nil, machine.Fault{Code: "DOWN", Message: "down"}
	}
	answer, err := o.ResolveStep(o.t.Context(), req)
	if err != nil {
		o.t.Fatal(err)
	}
	return answer.Disposition
}

// alone requests a call for workers. It checks that a worker gets only that call.
func (o *ownCaller) alone() {
	o.t.Helper()
	asked := o.req
	asked.Requests = []machine.StepRequest{{Key: "theirs", Tool: "run_tests", Payload: []byte(`{"path":"y"}`)}}
	o.ask(asked)
	if got := o.worker.step(); got.Step.Key != "theirs" {
		o.t.Fatalf("a worker gets %+v", got.StepLease)
	}
	list, err := o.Work.List(runtime.Call{Principal: everyone})
	if err != nil {
		o.t.Fatal(err)
	}
	for _, w := range list.Workers {
		for _, lease := range w.Steps {
			if lease.Step == 1 {
				o.t.Errorf("worker %s has %+v", w.ID, lease)
			}
		}
	}
	if len(list.Ready) != 0 {
		o.t.Errorf("workers are waited for: %+v", list.Ready)
	}
}

// TestByCaller: in each of these cases, a call that its caller makes itself (by_caller) goes to no worker. The
// caller's answer is taken.
func TestByCaller(t *testing.T) {
	t.Parallel()
	approve := `"approve": "payload.path == 'x'", `
	for name, tc := range map[string]struct {
		tool    string
		then    func(*ownCaller)
		attempt int
	}{
		"asked for":     {then: func(*ownCaller) {}},
		"started again": {then: (*ownCaller).again},
		"approved":      {tool: approve, then: func(o *ownCaller) { o.approve(o.started.RunID, 1, true) }},
		"approved, and started again": {tool: approve, then: func(o *ownCaller) {
			o.approve(o.started.RunID, 1, true)
			o.again()
		}},
		"started again, and approved": {tool: approve, then: func(o *ownCaller) {
			o.again()
			o.approve(o.started.RunID, 1, true)
		}},
		"a further attempt": {attempt: 2, then: func(o *ownCaller) { o.answer(false) }},
		"its time is over": {attempt: 2, then: func(o *ownCaller) {
			o.background()
			o.clock.Advance(11 * time.Second)
			until(o.t, "the attempt", func() bool { return o.own().Attempt == 2 })
		}},
		"asked for again, for workers": {then: func(o *ownCaller) {
			asked := o.req
			asked.Requests = []machine.StepRequest{o.req.Requests[0]}
			asked.Requests[0].ByCaller = false
			o.ask(asked)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOwnCaller(t, tc.tool)
			tc.then(o)
			if step := o.own(); !step.ByCaller || !step.Dispatchable() || step.Attempt != max(1, tc.attempt) {
				t.Fatalf("%+v", step)
			}
			o.alone()
			if got := o.answer(true); got != machine.Accepted {
				t.Errorf("the caller's answer is %v", got)
			}
		})
	}
}

func newOwnCaller(t *testing.T, tool string) *ownCaller {
	t.Helper()
	o := &ownCaller{asker: &asker{rig: newRig(t)}}
	o.register("", limitedPack(`"run_tests": {`+tool+`"timeout_sec": 10, "attempts": 2, "on_unknown": "retry"}`))
	o.worker = o.connect("tools", toolsOnly)
	o.started = o.start("a")
	o.req = runtime.StepsRequest{TurnCall: runtime.TurnCall{RunRef: ref(o.started.RunID, everyone), TurnToken: o.started.Turn.Token}}
	o.req.Requests = []machine.StepRequest{{Key: "own", Tool: "run_tests", Payload: []byte(`{"path":"x"}`), ByCaller: true}}
	o.ask(o.req)
	return o
}

// TestByCallerIsTakenOver: a worker takes a run over. It does not get the call that the previous caller may be
// making.
func TestByCallerIsTakenOver(t *testing.T) {
	t.Parallel()
	o := newOwnCaller(t, "")
	o.worker = o.connect("app", app)
	o.worker.serve(o.started.RunID, "run_tests")
	o.req.TurnCall = o.worker.turnCall(o.worker.turn())
	if step := o.ask(o.req).State.Steps[0]; !step.ByCaller || !step.Dispatchable() {
		t.Fatalf("%+v", step)
	}
	o.alone()
}

// TestByCallerIsForCallers: if a worker requests a call under its lease, by_caller has no effect, and the call
// goes to a worker.
func TestByCallerIsForCallers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	model, tools := r.connect("model", modelOnly), r.connect("tools", toolsOnly)
	r.startWorkers("s1")
	answer, err := r.RequestSteps(t.Context(), runtime.StepsRequest{
		TurnCall: model.turnCall(model.turn()), Requests: []machine.StepRequest{{Tool: "write_file", Payload: []byte(`{}`), ByCaller: true}},
	})
	if err != nil || answer.State.Steps[0].ByCaller {
		t.Fatalf("%+v, %v", answer.Steps, err)
	}
	tools.step()
}

// TestByCallerNoLongerAllowed: the operator's allowlist no longer has the tool of a call that its caller makes
// itself. If no answer gave out the attempt, the call is answered with TOOL_NOT_ALLOWED. If an answer gave out
// the attempt, its outcome is unknown.
func TestByCallerNoLongerAllowed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		// next: attempt 1 failed; given: attempt 2 was given out.
		next, given    bool
		admits         []string
		unknown, goes  bool
		attempt, notes int
	}{
		"the first answer gave it out":      {unknown: true, attempt: 1},
		"a further attempt":                 {next: true, attempt: 2},
		"a further attempt, given out":      {next: true, given: true, unknown: true, attempt: 2},
		"admitted":                          {admits: []string{"run_tests", "undo"}, goes: true, attempt: 1},
		"a further attempt, admitted":       {next: true, admits: []string{"run_tests", "undo"}, goes: true, attempt: 2, notes: 1},
		"given out, and admitted afterward": {next: true, given: true, admits: []string{"run_tests", "undo"}, goes: true, attempt: 2, notes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &ownCaller{asker: &asker{rig: newRig(t)}}
			o.register("", undonePack(`"attempts": 2, `))
			o.started = o.start("a")
			o.renew(false)
			o.req.Requests = []machine.StepRequest{{Key: "k", Tool: "run_tests", Payload: []byte(`{"path":"x"}`), ByCaller: true}}
			o.settled()
			if tc.next {
				o.answer(false)
			}
			if tc.given {
				o.settled()
			}
			o.admitOnly(tc.admits...)
			o.renew(false)
			if step := o.settled().Steps[0]; step.Dispatchable() != tc.goes || step.Attempt != tc.attempt || !step.ByCaller {
				t.Fatalf("the caller is given %+v", step)
			}
			if got := o.notes(); tc.goes && got != tc.notes {
				t.Errorf("%d notes of who has a call, want %d", got, tc.notes)
			}
			if !tc.goes {
				o.refused(tc.unknown)
			}
		})
	}
}

// TestByCallerTakesNoPlace: a call that its caller makes itself does not count in a limit of open calls. This
// holds after a restart too, where its attempt is noted as given out.
func TestByCallerTakesNoPlace(t *testing.T) {
	t.Parallel()
	o := newOwnCaller(t, "")
	o.answer(false)
	if o.settled(); o.notes() != 1 {
		t.Fatalf("%+v", o.store.Holders())
	}
	o.restart()
	o.limit("tool", 1)
	o.background()
	o.worker = o.connect("tools", toolsOnly)
	o.renew(false)
	o.alone()
}

// notes counts the calls that are noted as given out to their caller.
func (o *ownCaller) notes() (n int) {
	for _, holder := range o.store.Holders() {
		if holder.Principal != "" && holder.Worker == "" {
			n++
		}
	}
	return n
}
