package dispatch_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// admitOnly starts the sidecar again with another allowlist.
func (r *rig) admitOnly(tools ...string) {
	r.t.Helper()
	r.cfg.AllowTools = tools
	r.restart()
}

// undonePack is a pack with a tool that costs, has a business key, and is undone by another.
func undonePack(approve string) string {
	pack := limitedPack(`"run_tests": {` + approve + `"cost": 0.5, "dedupe": ["path"], "on_unknown": "return", "compensate": "undo"}`)
	return strings.Replace(pack, `"write_file": {`, `"undo": {"name": "undo", "description": "Undoes"}, "write_file": {`, 1)
}

// renew gets a token or a lease of the open turn.
func (a *asker) renew(leased bool) {
	a.t.Helper()
	if leased {
		model := a.connect("model", modelOnly)
		a.req.TurnCall = model.turnCall(model.turn())
		return
	}
	view, err := a.GetTurn(a.t.Context(), ref(a.started.RunID, everyone))
	if err != nil {
		a.t.Fatal(err)
	}
	a.req.TurnCall = runtime.TurnCall{RunRef: ref(a.started.RunID, everyone), TurnToken: view.Token}
}

// TestNoLongerAllowed: a call that waited while its tool left the operator's allowlist does not
// go out, whichever way it would: its answer is TOOL_NOT_ALLOWED, it costs nothing, and its
// business key is free; of one that its caller was given before the outcome is unknown.
func TestNoLongerAllowed(t *testing.T) {
	t.Parallel()
	const approve = `"approve": "always", `
	for name, tc := range map[string]struct {
		approve string
		// before: it is approved before the restart, and given: its caller was given it.
		before, given, worker, served bool
		// leased: workers execute the run.
		leased, goes, unknown bool
		admits                []string
	}{
		"a worker, approved behind the restart":  {approve: approve, worker: true},
		"a worker, approved before":              {approve: approve, before: true, worker: true},
		"a worker of a run of workers":           {leased: true, worker: true},
		"a worker, its caller was given it":      {worker: true, unknown: true},
		"the server of the run":                  {approve: approve, served: true},
		"its caller, approved behind":            {approve: approve},
		"its caller, approved before":            {approve: approve, before: true},
		"its caller, who was given it":           {approve: approve, before: true, given: true, unknown: true},
		"a worker, after its caller":             {approve: approve, before: true, given: true, worker: true, unknown: true},
		"a worker, the tool that undoes it went": {approve: approve, worker: true, admits: []string{"run_tests"}},
		"a worker, all are admitted":             {approve: approve, worker: true, admits: []string{"run_tests", "undo"}, goes: true},
		"its caller, all are admitted":           {approve: approve, admits: []string{"run_tests", "undo"}, goes: true},
		"its caller was given it, all admitted":  {approve: approve, before: true, given: true, admits: []string{"run_tests", "undo"}, goes: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &asker{rig: newRig(t)}
			a.register("", undonePack(tc.approve))
			req := startRequest("a")
			if tc.leased {
				req.Execution = machine.Workers
			}
			a.started = a.startWith(req)
			run := a.started.RunID
			a.renew(tc.leased)
			a.req.Requests = []machine.StepRequest{{Key: "k", Tool: "run_tests", Payload: []byte(`{"path":"x"}`)}}
			a.ask(a.req)
			if tc.before {
				a.approve(run, 1, true)
			}
			if tc.given {
				a.settled()
			}
			a.admitOnly(tc.admits...)
			a.renew(tc.leased)
			if tc.approve != "" && !tc.before {
				a.approve(run, 1, true)
			}
			a.leaves(tc.worker, tc.served, tc.goes)
			if !tc.goes {
				a.refused(tc.unknown)
			}
		})
	}
}

// leaves lets the call go the way that it would, and looks whether it does.
func (a *asker) leaves(worker, served, goes bool) {
	a.t.Helper()
	var w *fakeWorker
	switch {
	case worker:
		w = a.connect("tools", toolsOnly)
	case served:
		w = a.connect("app", app)
		w.serve(a.started.RunID, "run_tests")
		d := w.turn()
		a.req.TurnCall = w.turnCall(d)
	default:
		if out := a.settled(); out.Steps[0].Dispatchable() != goes {
			a.t.Fatalf("the caller is given %+v", out.Steps[0])
		}
		return
	}
	if goes {
		w.step()
		return
	}
	for deadline := time.Now().Add(within); a.stepsOf(a.started.RunID)[0].Status == machine.StepStatusPending; {
		if time.Now().After(deadline) {
			a.t.Fatalf("no answer: %+v", a.stepsOf(a.started.RunID)[0])
		}
		select {
		case got := <-w.steps:
			a.t.Fatalf("a worker gets %+v", got.StepLease)
		case <-time.After(time.Millisecond):
		}
	}
}

// refused looks at the answer of the call that did not go out.
func (a *asker) refused(unknown bool) {
	a.t.Helper()
	s := a.view(a.started.RunID).State
	step, cost := s.Steps[0], int64(0)
	if unknown {
		cost = 500_000
	}
	if step.Status != machine.StepStatusError || step.Doubt != unknown || s.CostMicro != cost {
		a.t.Errorf("%+v, cost %d", step, s.CostMicro)
	}
	answer := a.ask(a.req)
	if got := answer.Steps[0].Error.Code; got != machine.ToolNotAllowed {
		a.t.Errorf("answered with %s", got)
	}
	if _, taken, err := a.store.Effect(a.t.Context(), s.Namespace, step.Effect); err != nil || taken != unknown {
		a.t.Errorf("the business key is taken: %v, %v", taken, err)
	}
}
