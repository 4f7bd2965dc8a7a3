package dispatch_test

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// loadOf returns what fills a worker that does not get work of a run. The work is a call of a tool, or the open turn if tool is "".
func (r *rig) loadOf(worker, run, tool string) dispatch.Load {
	r.t.Helper()
	s := r.view(run).State
	_, prog, err := r.Engine.Current(r.t.Context(), runtime.RunKey{Namespace: s.Namespace, ID: run})
	if err != nil {
		r.t.Fatal(err)
	}
	class := r.Work.TurnClass(s, prog.Graph)
	if tool != "" {
		class = r.Work.StepClass(s, tool)
	}
	all, _ := r.Work.Unfit(s.Namespace, &class)
	for _, u := range all {
		if u.Worker == worker && u.Cause == dispatch.UnfitFull {
			return u.Load
		}
	}
	r.t.Fatalf("the worker %s is not full: %+v", worker, all)
	return dispatch.Load{}
}

// TestLoad: what fills a worker. Its turns are counted whose calls wait for an approval or have no answer yet.
func TestLoad(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.register("", limitedPack(`"run_tests": {"approve": "payload.path == 'held'"}`))
	model := r.connect("model", modelOnly, func(req *dispatch.WorkerRequest) { req.Offer.Turns = 3 })
	model.Credit(2, 0)
	first := r.startWorkers("a").RunID
	held := model.turn()
	second := r.startWorkers("b").RunID
	asked := model.turn()
	r.startWorkers("c")
	model.turn()
	late := r.startWorkers("d").RunID
	want := func(worker, run, tool string, want dispatch.Load) {
		t.Helper()
		if got := r.loadOf(worker, run, tool); got != want {
			t.Errorf("%s: %+v, want %+v", worker, got, want)
		}
	}
	want("model", late, "", dispatch.Load{Work: 3})
	for path, d := range map[string]dispatch.TurnDelivery{"held": held, "free": asked} {
		if _, err := model.request(d, path); err != nil {
			t.Fatal(err)
		}
	}
	want("model", late, "", dispatch.Load{Work: 3, ApprovalWaits: 1, StepWaits: 1})
	r.approve(first, 1, true)
	want("model", late, "", dispatch.Load{Work: 3, StepWaits: 2})

	tools := r.connect("tools", toolsOnly, func(req *dispatch.WorkerRequest) { req.Offer.Steps = 1 })
	step := tools.step()
	other := first
	if step.StepLease.RunID == first {
		other = second
	}
	want("tools", other, "run_tests", dispatch.Load{Work: 1})
	if answer, err := tools.resolve(step, `1`); err != nil || answer.Disposition != machine.Accepted {
		t.Fatalf("%v %v", answer.Disposition, err)
	}
	want("model", late, "", dispatch.Load{Work: 3, StepWaits: 1})
}
