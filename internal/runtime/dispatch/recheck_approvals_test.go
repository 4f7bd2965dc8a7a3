package dispatch_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/test/testkit"
)

// asker is a caller that makes its calls itself, each of which a person approves first.
type asker struct {
	*rig
	started runtime.Answer
	req     runtime.StepsRequest
}

// askerOf starts a run and requests one call for each path. All calls are held.
func askerOf(t *testing.T, paths []string, options ...option) *asker {
	t.Helper()
	a := &asker{rig: newRig(t, options...)}
	a.register("", limitedPack(`"run_tests": {"approve": "always"}`))
	a.started = a.start("a")
	a.req = runtime.StepsRequest{TurnCall: runtime.TurnCall{RunRef: ref(a.started.RunID, everyone), TurnToken: a.started.Turn.Token}}
	for _, path := range paths {
		a.req.Requests = append(a.req.Requests, machine.StepRequest{Tool: "run_tests", Payload: []byte(`{"path":"` + path + `"}`)})
	}
	answer := a.ask(a.req)
	for i := range answer.Steps {
		a.req.Requests[i].Key = answer.Steps[i].Key
	}
	return a
}

func (a *asker) ask(req runtime.StepsRequest) runtime.Answer {
	a.t.Helper()
	answer, err := a.RequestSteps(a.t.Context(), req)
	if err != nil {
		a.t.Fatal(err)
	}
	return answer
}

// approve approves a call, for one second or without an end.
func (r *rig) approve(run string, step uint32, forGood bool) {
	r.t.Helper()
	held := r.stepsOf(run)[step-1]
	decision := machine.DecideStep{Step: step, Digest: held.Approval.Digest, Verdict: machine.Approved}
	if !forGood {
		decision.Expires = r.clock.Now().Add(time.Second).UnixNano()
	}
	by := runtime.Principal{Subject: "ann", Scopes: everyone.Scopes}
	if _, err := r.Apply(r.t.Context(), runtime.Request{RunRef: ref(run, by), Command: decision}); err != nil {
		r.t.Fatal(err)
	}
}

// heldAgain returns the calls of a run that wait for a second decision.
func (r *rig) heldAgain(run string) (steps []uint32) {
	for _, step := range r.stepsOf(run) {
		if step.HeldForApproval() && step.Approval.Verdict == machine.Expired {
			steps = append(steps, step.Step)
		}
	}
	return steps
}

// The function requests the same calls again and rechecks the approvals of the answer. want are the steps
// whose approval expires by that. It returns the request with which the caller must ask again.
func (a *asker) lapses(want ...uint32) runtime.StepsRequest {
	a.t.Helper()
	answer := a.ask(a.req)
	seq := answer.State.Seq
	again, lapsed, err := a.Work.RecheckApprovals(a.t.Context(), a.req, &answer)
	if err != nil {
		a.t.Fatal(err)
	}
	got := a.heldAgain(a.started.RunID)
	if lapsed != (len(want) > 0) || len(got) != len(want) || len(want) > 0 && got[0] != want[0] {
		a.t.Errorf("lapsed %v, held again %v, want %v", lapsed, got, want)
	}
	if wrote := a.view(a.started.RunID).State.Seq - seq; wrote != uint64(len(want)) {
		a.t.Errorf("%d records were written, want %d", wrote, len(want))
	}
	return again
}

// TestLapse: if the approval of a call has expired when its caller is about to make it, the call is held
// again, with a record. No other call is.
func TestLapse(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		forGood bool
		wait    time.Duration
		want    []uint32
	}{
		"over":                {wait: time.Second, want: []uint32{1}},
		"not yet over":        {wait: time.Second - 1},
		"approved for good":   {forGood: true, wait: time.Hour / 2},
		"over, asked at once": {wait: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := askerOf(t, []string{"x"})
			a.approve(a.started.RunID, 1, tc.forGood)
			a.clock.Advance(tc.wait)
			again := a.lapses(tc.want...)
			if got := a.ask(again); len(got.Steps) != 1 || got.Steps[0].Step != 1 {
				t.Errorf("the same request is answered with %+v", got.Steps)
			}
			if now := a.stepsOf(a.started.RunID)[0]; now.HeldForApproval() != (len(tc.want) > 0) {
				t.Errorf("%+v", now.Approval)
			}
		})
	}
}

// TestLapseLeavesWorkersAlone: a call that a worker has was sent in time. A call of a run that workers execute
// is checked when it is sent.
func TestLapseLeavesWorkersAlone(t *testing.T) {
	t.Parallel()
	t.Run("a worker has it", func(t *testing.T) {
		t.Parallel()
		a := askerOf(t, []string{"x", "y"})
		tools := a.connect("tools", toolsOnly)
		a.approve(a.started.RunID, 2, false)
		if got := tools.step(); got.StepLease.Step != 2 {
			t.Fatalf("assigned %+v", got.StepLease)
		}
		a.approve(a.started.RunID, 1, false)
		a.clock.Advance(time.Second)
		a.lapses(1) // The second call is out, the first found no free place.
	})
	t.Run("workers drive the run", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.register("", limitedPack(`"run_tests": {"approve": "always"}`))
		model := r.connect("model", modelOnly)
		run := r.startWorkers("a").RunID
		d := model.turn()
		if _, err := model.request(d, "x"); err != nil {
			t.Fatal(err)
		}
		r.approve(run, 1, false)
		r.clock.Advance(time.Second)
		req := runtime.StepsRequest{TurnCall: model.turnCall(d), Requests: []machine.StepRequest{{Key: "1", Tool: "run_tests", Payload: []byte(`{"path":"x"}`)}}}
		answer, err := r.RequestSteps(t.Context(), req)
		if err != nil || !answer.State.Steps[0].Dispatchable() {
			t.Fatalf("%+v %v", answer.Steps, err)
		}
		if _, lapsed, err := r.Work.RecheckApprovals(t.Context(), req, &answer); lapsed || err != nil || len(r.heldAgain(run)) != 0 {
			t.Errorf("lapsed %v, held again %v, %v", lapsed, r.heldAgain(run), err)
		}
	})
	t.Run("no state is known", func(t *testing.T) {
		t.Parallel()
		if _, lapsed, err := newRig(t).Work.RecheckApprovals(t.Context(), runtime.StepsRequest{}, &runtime.Answer{}); lapsed || err != nil {
			t.Errorf("lapsed %v, %v", lapsed, err)
		}
	})
}

// TestLapseOutside: callers execute the turn of an external state, for each execution of the run. The calls
// that such a caller gets are checked as in a run of CALLER.
func TestLapseOutside(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"asked once": false, "asked before": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &asker{rig: newRig(t)}
			pack := limitedPack(`"run_tests": {"approve": "always", "on_unknown": "return"}`)
			a.register("", strings.Replace(pack, `"prompt_task": "worker",`, `"prompt_task": "worker", "orchestration": "external",`, 1))
			a.started = a.startWorkers("a")
			run := a.started.RunID
			a.req.TurnCall = runtime.TurnCall{RunRef: ref(run, everyone), TurnSeq: a.started.Turn.Seq, Attempt: 1}
			a.req.Requests = []machine.StepRequest{{Key: "k", Tool: "run_tests", Payload: []byte(`{"path":"x"}`)}}
			a.ask(a.req)
			a.approve(run, 1, false)
			if again {
				a.settled()
			}
			a.clock.Advance(time.Second)
			step := a.settled().Steps[0]
			if step.HeldForApproval() == again || step.Doubt {
				t.Errorf("%+v, %+v", step, step.Approval)
			}
			if unknown := step.Status == machine.StepStatusError; unknown != again {
				t.Errorf("unknown: %v", unknown)
			}
		})
	}
}

// TestLapseAsksUnderTheKeysOfTheAnswer: the second request finds the steps of the first one, even if the
// caller named no keys. It has no id, because under the same id the caller would get the first answer again.
// The key of a model's call follows from the call.
func TestLapseAsksUnderTheKeysOfTheAnswer(t *testing.T) {
	t.Parallel()
	a := askerOf(t, []string{"x", "y"})
	a.approve(a.started.RunID, 1, false)
	a.clock.Advance(time.Second)
	answer := a.ask(a.req)
	a.req.ID = "once"
	a.req.Requests[0].Key, a.req.Requests[1].Key, a.req.Requests[1].Call = "", "", &machine.CallRef{Step: 7}
	again, lapsed, err := a.Work.RecheckApprovals(t.Context(), a.req, &answer)
	if !lapsed || err != nil || again.ID != "" || again.Requests[0].Key != answer.Steps[0].Key || again.Requests[1].Key != "" {
		t.Errorf("lapsed %v, %v: %+v", lapsed, err, again)
	}
	if a.req.Requests[0].Key != "" {
		t.Error("the caller's own request was changed")
	}
}

// shy is a store that returns an error when it is asked which worker has a step.
type shy struct {
	*testkit.Store
	err error
}

func (s *shy) StepHolder(context.Context, machine.OutboxRow) (machine.StepHolder, error) {
	return machine.StepHolder{}, s.err
}

// TestLapseMeetsErrors: a step without a row is at no worker. If the store fails, or the record cannot be
// written, the caller gets that error and no call.
func TestLapseMeetsErrors(t *testing.T) {
	t.Parallel()
	broken := &machine.Error{Code: machine.CodeUnavailable, Reason: "BROKEN"}
	for name, tc := range map[string]struct {
		store  error
		commit bool
		want   string
		held   int
	}{
		"the row is gone":          {store: machine.ErrNoStep, held: 1},
		"the store fails":          {store: broken, want: "BROKEN"},
		"the record is not stored": {commit: true, want: "BROKEN"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := askerOf(t, []string{"x"}, func(c *runtime.Config) { c.Store = &shy{c.Store.(*testkit.Store), tc.store} })
			a.approve(a.started.RunID, 1, false)
			a.clock.Advance(time.Second)
			answer := a.ask(a.req)
			if tc.commit {
				a.store.FailCommits(func(*machine.Batch) testkit.Fault { return testkit.Fault{Err: broken} })
			}
			_, lapsed, err := a.Work.RecheckApprovals(t.Context(), a.req, &answer)
			wantReason(t, err, tc.want)
			if lapsed != (tc.held > 0) {
				t.Errorf("lapsed %v", lapsed)
			}
			if got := a.heldAgain(a.started.RunID); len(got) != tc.held {
				t.Errorf("held again: %v", got)
			}
		})
	}
}

// TestGivenOutMayHaveBeenMade: an answer gave a call to its caller, so the caller may have made it. When its
// approval expires, the outcome is unknown: on_unknown says what follows, and the cost is settled. The call is
// not simply held again.
func TestGivenOutMayHaveBeenMade(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		tool    string
		restart bool
		status  machine.StepStatus
		held    bool
	}{
		"return":               {tool: `"on_unknown": "return"`, status: machine.StepStatusError},
		"return, over restart": {tool: `"on_unknown": "return"`, restart: true, status: machine.StepStatusError},
		"retry":                {tool: `"on_unknown": "retry", "attempts": 2`, status: machine.StepStatusPending, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &asker{rig: newRig(t)}
			a.register("", limitedPack(`"run_tests": {"approve": "always", "cost": 0.5, "dedupe": ["path"], `+tc.tool+`}`))
			a.started = a.start("a")
			a.req = runtime.StepsRequest{TurnCall: runtime.TurnCall{RunRef: ref(a.started.RunID, everyone), TurnToken: a.started.Turn.Token}}
			a.req.Requests = []machine.StepRequest{{Key: "k", Tool: "run_tests", Payload: []byte(`{"path":"x"}`)}}
			a.ask(a.req)
			a.approve(a.started.RunID, 1, false)
			if out := a.settled(); !out.Steps[0].Dispatchable() {
				t.Fatalf("%+v", out.Steps[0])
			}
			if tc.restart {
				a.restart()
				view, err := a.GetTurn(t.Context(), ref(a.started.RunID, everyone))
				if err != nil {
					t.Fatal(err)
				}
				a.req.TurnToken = view.Token
			}
			a.clock.Advance(time.Second)
			s := a.settled()
			if step := s.Steps[0]; step.Status != tc.status || step.HeldForApproval() != tc.held || !step.Doubt || s.CostMicro != 500_000 {
				t.Errorf("%+v, cost %d", step, s.CostMicro)
			}
		})
	}
}

// settled repeats the request, as the handler does, until no approval expires any more. It returns the state.
func (a *asker) settled() *machine.State {
	a.t.Helper()
	req := a.req
	for {
		answer := a.ask(req)
		again, lapsed, err := a.Work.RecheckApprovals(a.t.Context(), req, &answer)
		if err != nil {
			a.t.Fatal(err)
		}
		if !lapsed {
			return a.view(a.started.RunID).State
		}
		req = again
	}
}
