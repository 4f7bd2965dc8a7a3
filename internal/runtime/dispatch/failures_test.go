package dispatch_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// fail reports that a turn failed for good.
func (f *fakeWorker) fail(d dispatch.TurnDelivery, fault machine.Fault) {
	f.r.t.Helper()
	if _, err := f.r.FailTurn(context.Background(), runtime.FailRequest{TurnCall: f.turnCall(d), Error: fault}); err != nil {
		f.r.t.Fatalf("fail %v: %v", d.TurnLease, err)
	}
}

// listed returns the description of one connected worker.
func (r *rig) listed(id string) dispatch.WorkerView {
	r.t.Helper()
	list, err := r.Work.List(runtime.Call{Principal: everyone})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, w := range list.Workers {
		if w.ID == id {
			return w
		}
	}
	r.t.Fatalf("worker %s is not listed", id)
	panic("unreachable")
}

// TestFailuresAreCounted tests the counts and the last failure of a worker that reports errors.
func TestFailuresAreCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startWorkers("s1")
	w := r.connect("w")
	w.mustComplete(w.turn(), "Again")
	w.Credit(1, 0)
	if got := r.listed("w"); got.TurnCounts != (dispatch.WorkCounts{Taken: 1}) && got.TurnCounts != (dispatch.WorkCounts{Taken: 2}) || got.LastFailure != nil {
		t.Fatalf("without a failure: %+v", got)
	}
	d := w.turn()
	w.fail(d, machine.Fault{Code: "BOOM", Message: strings.Repeat("é", 300) + "x", Trace: "trace"})
	got := r.listed("w")
	if got.TurnCounts != (dispatch.WorkCounts{Taken: 2, Failed: 1}) || got.StepCounts != (dispatch.WorkCounts{}) || got.FailingMore {
		t.Fatalf("%+v", got)
	}
	last := got.LastFailure
	if last.Cause != dispatch.FailureAnswered || last.RunID != d.TurnLease.RunID || last.Class.Prompt == "" || last.Class.Tool != "" || last.Attempt != 1 ||
		last.At != r.clock.Now().UnixNano() || last.Error.Code != "BOOM" || last.Error.Trace != "" || len(last.Error.Message) != 512 || !utf8.ValidString(last.Error.Message) {
		t.Fatalf("%+v", last)
	}

	r.startWorkers("s2")
	w.Credit(1, 0)
	if _, err := w.request(w.turn(), "a"); err != nil {
		t.Fatal(err)
	}
	step := w.step()
	if _, err := r.ResolveStep(context.Background(), runtime.ResolveRequest{
		RunRef: w.ref(step.StepLease.RunID), TurnToken: step.StepLease.Token, Step: step.StepLease.Step, Tool: step.StepLease.Tool,
		Attempt: step.StepLease.Attempt, Error: machine.Fault{Code: "DOWN", Message: "secret"},
	}); err != nil {
		t.Fatal(err)
	}
	got = r.listed("w")
	if got.StepCounts != (dispatch.WorkCounts{Taken: 1, Failed: 1}) || got.LastFailure.Class.Tool != "run_tests" || got.LastFailure.Error.Message != "secret" {
		t.Fatalf("%+v, %+v", got, got.LastFailure)
	}
	r.Work.Forget(runtime.RunKey{ID: step.StepLease.RunID})
	if last := r.listed("w").LastFailure; last.Error != (machine.Fault{Code: "DOWN"}) {
		t.Fatalf("a forgotten run: %+v", last)
	}
}

// wantLost fails the test if the last failure of a worker is not a turn or step that it lost with this error.
func (r *rig) wantLost(worker, code string) {
	r.t.Helper()
	got := r.listed(worker)
	counts := dispatch.WorkCounts{Taken: got.TurnCounts.Taken + got.StepCounts.Taken, Lost: got.TurnCounts.Lost + got.StepCounts.Lost}
	if last := got.LastFailure; counts != (dispatch.WorkCounts{Taken: 1, Lost: 1}) || last.Cause != dispatch.FailureExpired || last.Error.Code != code {
		r.t.Fatalf("%+v, %+v", got, last)
	}
}

// TestDisconnectIsReported tests that work of a worker that is gone is reported: a turn at once, and a step after the
// time in which the worker may come back. Other failures are reported too.
func TestDisconnectIsReported(t *testing.T) {
	t.Parallel()
	reported := make(chan dispatch.Failure, 8)
	r := newRig(t)
	r.cfg.Work.OnFailure = func(f dispatch.Failure) { reported <- f }
	r.restart()
	r.background()
	run := r.startWorkers("s1")
	w, tools := r.connect("w", modelOnly), r.connect("tools", toolsOnly)
	if _, err := w.request(w.turn(), "a"); err != nil {
		t.Fatal(err)
	}
	tools.step()
	w.Close(true)
	if got := await(t, "report", reported); got.Worker != "w" || got.Cause != dispatch.FailureDisconnected || got.RunID != run.RunID || got.Class.Prompt == "" || got.Attempt != 1 {
		t.Fatalf("%+v", got)
	}
	tools.Close(true)
	r.clock.AwaitAlarm(5 * time.Second)
	r.clock.Advance(5 * time.Second)
	if got := await(t, "report", reported); got.Worker != "tools" || got.Cause != dispatch.FailureDisconnected || got.Class.Tool != "run_tests" || got.Error.Code != "WORKER_LOST" {
		t.Fatalf("%+v", got)
	}
	back := r.connect("w", modelOnly)
	back.fail(back.turn(), machine.Fault{Code: "BOOM"})
	if got := await(t, "report", reported); got.Worker != "w" || got.Cause != dispatch.FailureAnswered || got.Error.Code != "BOOM" {
		t.Fatalf("%+v", got)
	}
}

// failedStep is a step that a worker of one tool has, and the failures that are reported.
type failedStep struct {
	out
	reported chan dispatch.Failure
}

// disconnect ends the connection of the worker, and moves the clock to the end of the step.
func (o *failedStep) disconnect(d time.Duration) {
	o.tools.Close(true)
	o.expire(d)
}

func (o *failedStep) expire(d time.Duration) {
	o.clock.AwaitAlarm(d)
	o.clock.Advance(d)
}

func (o *failedStep) answer(fault machine.Fault, unknown bool) {
	o.t.Helper()
	if _, err := o.ResolveStep(o.t.Context(), runtime.ResolveRequest{
		RunRef: o.tools.ref(o.run), TurnToken: o.step.StepLease.Token, Step: 1, Tool: "run_tests", Attempt: 1, Error: fault, Unknown: unknown,
	}); err != nil {
		o.t.Fatal(err)
	}
}

// TestStepFailuresAreCountedOnce tests each record and each command that ends an attempt of a step without success.
func TestStepFailuresAreCountedOnce(t *testing.T) {
	t.Parallel()
	const grace, second = dispatch.DefaultStepGrace, time.Second
	policies := map[string]string{
		"return": `"on_unknown": "return"`, "retry": `"attempts": 2, "on_unknown": "retry"`, "escalate": `"on_unknown": "escalate", "on_error": "escalate"`,
		"reconcile": `"on_unknown": "reconcile", "reconcile": "write_file"`,
	}
	answered := dispatch.WorkCounts{Taken: 1, Failed: 1}
	lost := dispatch.WorkCounts{Taken: 1, Lost: 1}
	for name, end := range map[string]struct {
		tool  string
		leave func(*failedStep)
		cause dispatch.FailureCause
		code  string
		// counts are those of the worker. They are zero if it is not connected.
		counts dispatch.WorkCounts
	}{
		"error": {
			leave: func(o *failedStep) { o.answer(machine.Fault{Code: "DOWN"}, false) },
			cause: dispatch.FailureAnswered, code: "DOWN", counts: answered,
		},
		"error with an unknown outcome": {
			leave: func(o *failedStep) { o.answer(machine.Fault{Code: "DOWN"}, true) },
			cause: dispatch.FailureAnswered, code: "DOWN", counts: answered,
		},
		"deadline": {
			tool: `"timeout_sec": 1, `, leave: func(o *failedStep) { o.expire(second) },
			cause: dispatch.FailureExpired, code: "DEADLINE_EXCEEDED", counts: lost,
		},
		"disconnected": {
			leave: func(o *failedStep) { o.disconnect(grace) },
			cause: dispatch.FailureDisconnected, code: "WORKER_LOST",
		},
		"deadline while disconnected": {
			tool: `"timeout_sec": 1, `, leave: func(o *failedStep) { o.disconnect(second) },
			cause: dispatch.FailureDisconnected, code: "DEADLINE_EXCEEDED",
		},
		"reconnected too late": {
			leave: func(o *failedStep) {
				if _, err := o.ApplyInternal(o.t.Context(), runtime.RunKey{ID: o.run}, machine.LoseStep{Step: 1, Attempt: 1, Worker: "tools"}); err != nil {
					o.t.Fatal(err)
				}
			},
			cause: dispatch.FailureDisconnected, code: "WORKER_LOST", counts: lost,
		},
	} {
		for policy, settings := range policies {
			t.Run(name+"/"+policy, func(t *testing.T) {
				t.Parallel()
				o := newFailedStep(t, end.tool+settings)
				end.leave(o)
				got := await(t, "report", o.reported)
				if got.Worker != "tools" || got.RunID != o.run || got.Class.Tool != "run_tests" || got.Attempt != 1 || got.Cause != end.cause || got.Error.Code != end.code {
					t.Errorf("reported %+v", got)
				}
				if end.counts != (dispatch.WorkCounts{}) {
					if w := o.listed("tools"); w.StepCounts != end.counts || *w.LastFailure != got {
						t.Errorf("listed %+v, %+v", w, w.LastFailure)
					}
				}
				o.end()
			})
		}
	}
}

// TestNoFailureOfAWorker tests the ends of a step for which no worker answers.
func TestNoFailureOfAWorker(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*failedStep){
		"succeeded":  func(o *failedStep) { _, _ = o.tools.resolve(o.step, `1`) },
		"visit left": func(o *failedStep) { o.model.mustComplete(o.turn, "Again") },
		"deadline that no worker has": func(o *failedStep) {
			if err := o.tools.ReleaseStep(o.step.StepLease.Token); err != nil {
				o.t.Fatal(err)
			}
			o.expire(time.Second)
			if got := await(o.t, "answer", o.model.answers); got[0].Error.Code != "DEADLINE_EXCEEDED" {
				o.t.Errorf("answered %+v", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newFailedStep(t, `"timeout_sec": 1, "on_unknown": "return"`)
			leave(o)
			o.end()
		})
	}
}

func newFailedStep(t *testing.T, tool string) *failedStep {
	o := &failedStep{out: out{rig: newRig(t)}, reported: make(chan dispatch.Failure, 8)}
	o.cfg.Work.OnFailure = func(f dispatch.Failure) { o.reported <- f }
	o.restart()
	o.register("", limitedPack(`"run_tests": {`+tool+`}`))
	o.background()
	o.model, o.tools = o.connect("model", modelOnly), o.connect("tools", toolsOnly, serves("run_tests"))
	o.turn, o.step = o.pendingStep(o.model, o.tools)
	o.run = o.step.StepLease.RunID
	return o
}

// end cancels the run, and fails the test if a failure is reported that the test has not read.
func (o *failedStep) end() {
	o.t.Helper()
	if !o.view(o.run).State.Status.Terminal() {
		o.apply(o.run, machine.Cancel{})
	}
	if len(o.reported) > 0 {
		o.t.Errorf("also reported %+v", <-o.reported)
	}
}

// TestEndIsNoFailure tests that a worker does not answer for work that it lost because the run ended.
func TestEndIsNoFailure(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.startWorkers("s1")
	w := r.connect("w")
	w.turn()
	if _, err := r.CancelRun(context.Background(), runtime.ControlRequest{RunRef: ref(run.RunID, everyone)}); err != nil {
		t.Fatal(err)
	}
	await(t, "revocation", w.revoked)
	if got := r.listed("w"); got.TurnCounts != (dispatch.WorkCounts{Taken: 1}) || got.LastFailure != nil {
		t.Fatalf("%+v", got)
	}
}

// TestFailingMore tests the bounds of the rule: 5 failures, and 3 times the share of the peers with one more failure.
func TestFailingMore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.connect("a")
	for i := range 5 {
		if r.listed("a").FailingMore {
			t.Fatalf("marked after %d failures", i)
		}
		r.startWorkers(fmt.Sprint("s", i))
		a.fail(a.turn(), machine.Fault{Code: "BOOM"})
		if i < 4 {
			a.Credit(1, 0)
		}
	}
	r.startWorkers("peers")
	b := r.connect("b")
	for i := range 2 {
		b.mustComplete(b.turn(), "Again")
		// Without a credit, the peer gets no further turn.
		if r.listed("a").FailingMore {
			t.Fatalf("marked after %d turns of its peer", i+1)
		}
		b.Credit(1, 0)
	}
	b.turn()
	if !r.listed("a").FailingMore || r.listed("b").FailingMore {
		t.Fatalf("a is %+v, b is %+v", r.listed("a"), r.listed("b"))
	}
}
