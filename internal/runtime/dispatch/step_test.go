package dispatch_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
)

// modelOnly and toolsOnly divide turns and steps between two workers.
func modelOnly(req *dispatch.WorkerRequest) { req.Offer.Tools = nil }
func toolsOnly(req *dispatch.WorkerRequest) { req.Offer.Prompts = nil }

// pendingStep starts a run of WORKERS and returns its turn and first step, each
// held by its worker.
func (r *rig) pendingStep(model, tools *fakeWorker) (dispatch.TurnDelivery, dispatch.StepDelivery) {
	r.t.Helper()
	r.startWorkers("s1")
	d := model.turn()
	if _, err := model.request(d, "a"); err != nil {
		r.t.Fatal(err)
	}
	return d, tools.step()
}

// stepsOf returns the steps of the current visit of a run.
func (r *rig) stepsOf(run string) []machine.ToolStep {
	r.t.Helper()
	return r.view(run).State.Steps
}

// TestStepToWorker: a step goes to the worker of its tool, even in a run of CALLER. Its answer goes to the
// holder of the turn.
func TestStepToWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	model, tools := r.connect("model", modelOnly), r.connect("tools", toolsOnly)
	d, step := r.pendingStep(model, tools)
	if step.Step.Key != "1" || string(step.Step.Payload) != `{"path":"a"}` || step.Left != 300*time.Second || step.RequestedAt == 0 {
		t.Fatalf("assigned %+v", step)
	}
	answer, err := tools.resolve(step, `{"ok":true}`)
	if err != nil || answer.Disposition != machine.Accepted {
		t.Fatalf("resolve: %v %v", answer.Disposition, err)
	}
	if got := await(t, "answer", model.answers); len(got) != 1 || string(got[0].Result) != `{"ok":true}` {
		t.Fatalf("told %+v", got)
	}
	nothing(t, "revocation", tools.revoked)
	model.mustComplete(d, "Again")

	caller := r.start("c1")
	tools.Credit(0, 1)
	_, err = r.RequestSteps(context.Background(), runtime.StepsRequest{
		TurnCall: runtime.TurnCall{RunRef: ref(caller.RunID, everyone), TurnToken: caller.Turn.Token},
		Requests: []machine.StepRequest{{Tool: "write_file", Payload: []byte(`{}`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := tools.step(); got.StepLease.RunID != caller.RunID || got.StepLease.Tool != "write_file" {
		t.Fatalf("assigned %+v", got.StepLease)
	}
}

// TestStepDispositions: the disposition of an answer that comes twice or too late. An answer from another
// worker is refused.
func TestStepDispositions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	model, tools := r.connect("model", modelOnly), r.connect("tools", toolsOnly)
	d, step := r.pendingStep(model, tools)
	stranger := r.connect("stranger", toolsOnly)
	if _, err := stranger.resolve(step, `1`); reason(err) != "STEP_NOT_HELD" {
		t.Fatalf("a stranger's answer: %v", err)
	}
	other := step
	other.StepLease.Step = 2
	if _, err := tools.resolve(other, `1`); reason(err) != "STEP_NOT_HELD" {
		t.Fatalf("another step under this token: %v", err)
	}
	for _, c := range []struct {
		result string
		want   machine.Disposition
	}{{`1`, machine.Accepted}, {`1`, machine.IgnoredDuplicate}, {`2`, machine.IgnoredStale}} {
		if answer, err := tools.resolve(step, c.result); err != nil || answer.Disposition != c.want {
			t.Fatalf("answer %s: %v %v, want %v", c.result, answer.Disposition, err, c.want)
		}
	}
	model.mustComplete(d, "Finish")
	model.Credit(1, 0)
	model.mustComplete(model.turn(), "")
	if answer, err := tools.resolve(step, `1`); err != nil || answer.Disposition != machine.IgnoredTerminal {
		t.Fatalf("after the end: %v %v", answer.Disposition, err)
	}
}

// TestStepRevoked: when a run leaves a visit, the steps of the visit are cancelled, and their workers are
// notified.
func TestStepRevoked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	model, tools := r.connect("model", modelOnly), r.connect("tools", toolsOnly)
	d, step := r.pendingStep(model, tools)
	model.mustComplete(d, "Again")
	got := await(t, "revocation", tools.revoked)
	if got.Step == nil || got.Step.Token != step.StepLease.Token || got.Cause != dispatch.RevokedSuperseded {
		t.Fatalf("revoked %+v", got)
	}
	if answer, err := tools.resolve(step, `1`); err != nil || answer.Disposition != machine.IgnoredStale {
		t.Fatalf("a late answer: %v %v", answer.Disposition, err)
	}
}

// TestStepWorkerLost: a step waits some time for its lost worker. Then its outcome is unknown, and the turn
// gets it as an error.
func TestStepWorkerLost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.background()
	model, tools := r.connect("model", modelOnly), r.connect("tools", toolsOnly)
	_, step := r.pendingStep(model, tools)
	spare := r.connect("spare", toolsOnly)
	tools.Close(true)
	nothing(t, "step", spare.steps)
	r.clock.AwaitAlarm(5 * time.Second)
	r.clock.Advance(5 * time.Second)
	got := await(t, "answer", model.answers)
	if len(got) != 1 || got[0].Error.Code != "WORKER_LOST" || !strings.Contains(got[0].Error.Message, "tools") {
		t.Fatalf("told %+v", got)
	}
	nothing(t, "step", spare.steps)
	if steps := r.stepsOf(step.StepLease.RunID); steps[0].Status != machine.StepStatusError {
		t.Fatalf("the step is %+v", steps[0])
	}
}

// TestStepWorkerReturns: a worker that connects again in time keeps its step, and no other worker runs the
// tool.
func TestStepWorkerReturns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.background()
	model, tools := r.connect("model", modelOnly), r.connect("tools", toolsOnly)
	_, step := r.pendingStep(model, tools)
	tools.Close(true)
	thief := r.connect("thief", toolsOnly, func(req *dispatch.WorkerRequest) { req.Steps = []dispatch.StepLease{step.StepLease} })
	if len(thief.conn.Steps) != 0 {
		t.Fatal("another worker took the step by naming it")
	}
	back := r.connect("tools", toolsOnly, func(req *dispatch.WorkerRequest) { req.Steps = []dispatch.StepLease{step.StepLease} })
	if len(back.conn.Steps) != 1 {
		t.Fatal("the returning worker did not keep its step")
	}
	r.clock.Advance(time.Minute)
	step.StepLease = back.conn.Steps[0]
	if answer, err := back.resolve(step, `1`); err != nil || answer.Disposition != machine.Accepted {
		t.Fatalf("resolve: %v %v", answer.Disposition, err)
	}
	nothing(t, "step", thief.steps)
}

// TestStepReleased: a released step that has not begun goes to another worker at once, with the same attempt.
func TestStepReleased(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	model, tools := r.connect("model", modelOnly), r.connect("tools", toolsOnly)
	_, step := r.pendingStep(model, tools)
	spare := r.connect("spare", toolsOnly)
	if err := tools.ReleaseStep(step.StepLease.Token); err != nil {
		t.Fatal(err)
	}
	if got := spare.step(); got.StepLease.Attempt != 1 || got.StepLease.Step != step.StepLease.Step {
		t.Fatalf("assigned %+v", got.StepLease)
	}
	wantReason(t, tools.ReleaseStep(step.StepLease.Token), "STEP_NOT_HELD")
}

// TestStepRestart: after a restart, a step waits for the worker that may be executing it. This worker
// continues it.
func TestStepRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	model, tools := r.connect("model", modelOnly), r.connect("tools", toolsOnly)
	_, step := r.pendingStep(model, tools)
	r.clock.Advance(time.Second)
	r.restart()
	r.background()
	spare := r.connect("spare", toolsOnly)
	back := r.connect("tools", toolsOnly, func(req *dispatch.WorkerRequest) { req.Steps = []dispatch.StepLease{step.StepLease} })
	if len(back.conn.Steps) != 1 {
		t.Fatal("the returning worker did not keep its step")
	}
	old := step
	step.StepLease = back.conn.Steps[0]
	if answer, err := back.resolve(step, `1`); err != nil || answer.Disposition != machine.Accepted {
		t.Fatalf("resolve: %v %v", answer.Disposition, err)
	}
	nothing(t, "step", spare.steps)

	r.restart()
	r.background()
	again := r.connect("tools", toolsOnly, func(req *dispatch.WorkerRequest) { req.Steps = []dispatch.StepLease{old.StepLease} })
	if answer, err := again.resolve(old, `1`); err != nil || answer.Disposition != machine.IgnoredDuplicate {
		t.Fatalf("the same answer after a restart: %v %v", answer.Disposition, err)
	}
	if answer, err := again.resolve(old, `2`); err != nil || answer.Disposition != machine.IgnoredStale {
		t.Fatalf("another answer after a restart: %v %v", answer.Disposition, err)
	}
}

// TestStepRestartUnclaimed: the worker that had a step when the sidecar died does not come back. It is unknown
// whether the tool ran. No other worker runs it, unless on_unknown is retry.
func TestStepRestartUnclaimed(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]machine.StepStatus{
		"return": machine.StepStatusError, "escalate": machine.StepStatusError, "retry": machine.StepStatusPending,
	} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.register("", onUnknown(policy))
			_, step := r.pendingStep(r.connect("model", modelOnly), r.connect("tools", toolsOnly))
			r.restart()
			r.background()
			spare := r.connect("spare", toolsOnly)
			impostor := r.connect("impostor", toolsOnly, func(req *dispatch.WorkerRequest) { req.Steps = []dispatch.StepLease{step.StepLease} })
			if len(impostor.conn.Steps) != 0 {
				t.Fatal("another worker took the step by naming it")
			}
			r.clock.AwaitAlarm(20 * time.Second)
			nothing(t, "step", spare.steps)
			r.clock.Advance(20 * time.Second)
			run := step.StepLease.RunID
			if policy == "retry" {
				if got := spare.step(); got.StepLease.Attempt != 2 || got.StepLease.RunID != run {
					t.Fatalf("assigned %+v", got.StepLease)
				}
				return
			}
			status := machine.Running
			if policy == "escalate" {
				status = machine.Escalated
			}
			s := r.settledStep(run, want)
			if s.Status != status {
				t.Fatalf("the run is %s (%s)", s.Status, s.Reason)
			}
			nothing(t, "step", spare.steps)
		})
	}
}

// TestALateAnswerOfAnEarlierAttempt: a worker comes back while another one makes the next attempt. Its good
// answer is taken, but it keeps no step. A worker that does not serve the tool cannot answer.
func TestALateAnswerOfAnEarlierAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.register("", onUnknown("retry"))
	_, step := r.pendingStep(r.connect("model", modelOnly), r.connect("tools", toolsOnly))
	r.restart()
	r.background()
	spare := r.connect("spare", toolsOnly)
	r.clock.AwaitAlarm(20 * time.Second)
	r.clock.Advance(20 * time.Second)
	if got := spare.step(); got.StepLease.Attempt != 2 {
		t.Fatalf("assigned %+v", got.StepLease)
	}
	presents := func(req *dispatch.WorkerRequest) { req.Steps = []dispatch.StepLease{step.StepLease} }
	stranger := r.connect("stranger", func(req *dispatch.WorkerRequest) { req.Offer.Tools = []string{"write_file"} }, presents)
	if _, err := stranger.resolve(step, `0`); reason(err) != "STEP_NOT_HELD" {
		t.Fatalf("of another tool's worker: %v", err)
	}
	back := r.connect("tools", toolsOnly, presents)
	if len(back.conn.Steps) != 0 {
		t.Fatal("the worker keeps an attempt that is over")
	}
	if answer, err := back.resolve(step, `1`); err != nil || answer.Disposition != machine.Accepted {
		t.Fatalf("the late answer: %v %v", answer.Disposition, err)
	}
	if got := await(t, "revocation", spare.revoked); got.Step == nil || got.Step.Attempt != 2 || got.Cause != dispatch.RevokedSuperseded {
		t.Fatalf("revoked %+v", got)
	}
}

// onUnknown returns the loop pack in which run_tests has the policy, and two attempts.
func onUnknown(policy string) string {
	pack := strings.Replace(loopPack, `"version": "1.0.0",`, `"version": "2.0.0",`, 1)
	return strings.Replace(pack, `"x_pawl": {`, `"x_pawl": {"tools": {"run_tests": {"attempts": 2, "on_unknown": "`+policy+`"}}, `, 1)
}

// settledStep waits until the run's first step has a status.
func (r *rig) settledStep(run string, want machine.StepStatus) *machine.State {
	r.t.Helper()
	deadline := time.Now().Add(within)
	for after := uint64(1); ; {
		s, _, err := r.WaitRun(context.Background(), streams.WaitRequest{RunRef: ref(run, everyone), AfterSeq: after})
		if err != nil {
			r.t.Fatal(err)
		}
		if len(s.Steps) > 0 && s.Steps[0].Status == want {
			return s
		}
		if s.Status.Terminal() || time.Now().After(deadline) {
			r.t.Fatalf("the run is %s, its steps are %+v", s.Status, s.Steps)
		}
		after = s.Seq
	}
}

// TestStepRestartUnassigned: a step that no worker had when the sidecar died, or
// that came back unexecuted, is simply offered again.
func TestStepRestartUnassigned(t *testing.T) {
	t.Parallel()
	for name, released := range map[string]bool{"never assigned": false, "released": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.startWorkers("s1")
			model := r.connect("model", modelOnly)
			d := model.turn()
			if _, err := model.request(d, "a"); err != nil {
				t.Fatal(err)
			}
			if released {
				tools := r.connect("tools", toolsOnly)
				step := tools.step()
				if err := tools.ReleaseStep(step.StepLease.Token); err != nil {
					t.Fatal(err)
				}
				if !r.store.AwaitHolder(machine.StepHolder{}, within) {
					t.Fatal("it is still stored as held")
				}
			}
			r.restart()
			spare := r.connect("spare", toolsOnly)
			if got := spare.step(); got.StepLease.Attempt != 1 || got.StepLease.RunID != d.TurnLease.RunID {
				t.Fatalf("assigned %+v", got.StepLease)
			}
			nothing(t, "step", spare.steps)
		})
	}
}

// TestStepUnreceived: a step that was sent to a worker's process under a higher number than that
// process has received never arrived: it is sent again, at once and with the same attempt. One
// that arrived and is not presented is unknown, as is each step of a process that does not count
// or that is another one.
func TestStepUnreceived(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		uncounted, other, received bool
		again                      bool
	}{
		"not received":          {again: true},
		"received, and dropped": {received: true},
		"not counted":           {uncounted: true},
		"another process":       {other: true},
	} {
		for _, when := range []string{"connection lost", "restarted, found before", "restarted, found after"} {
			t.Run(name+", "+when, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.background()
				register := func(instance string, received uint64) func(*dispatch.WorkerRequest) {
					return func(req *dispatch.WorkerRequest) {
						req.Instance, req.Counts, req.Received = instance, !c.uncounted, received
					}
				}
				tools := r.connect("tools", toolsOnly, register("first", 0))
				model := r.connect("model", modelOnly)
				_, step := r.pendingStep(model, tools)
				if when == "connection lost" {
					tools.Close(true)
				} else {
					r.restart()
					r.background()
				}
				if when == "restarted, found before" {
					r.connect("early", modelOnly)
					r.clock.AwaitAlarm(20 * time.Second) // the scan has found the step
				}
				instance, received := "first", step.Delivery-1
				if c.other {
					instance = "second"
				}
				if c.received {
					received = step.Delivery
				}
				back := r.connect("tools", toolsOnly, register(instance, received))
				if c.again {
					if got := back.step(); got.StepLease.Attempt != 1 || got.StepLease.RunID != step.StepLease.RunID || got.Delivery <= received {
						t.Fatalf("assigned %+v", got)
					}
					return
				}
				grace := 20 * time.Second
				if when == "connection lost" {
					grace = 5 * time.Second
				}
				r.clock.AwaitAlarm(grace)
				r.clock.Advance(grace)
				s := r.settledStep(step.StepLease.RunID, machine.StepStatusError)
				if s.Steps[0].Attempt != 1 {
					t.Errorf("the step is %+v", s.Steps[0])
				}
				nothing(t, "step", back.steps)
			})
		}
	}
}

// TestStepsGoInTheOrderOfTheirNumbers: a worker has received all steps of a stream up to its highest number,
// even if storing the holder of one step takes long.
func TestStepsGoInTheOrderOfTheirNumbers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	model := r.connect("model", modelOnly, func(req *dispatch.WorkerRequest) { req.Offer.Turns = 64 })
	tools := r.connect("tools", toolsOnly, func(req *dispatch.WorkerRequest) {
		req.Instance, req.Counts, req.Received, req.Offer.Steps = "i", true, 40, 64
	})
	tools.Credit(0, 64)
	const runs = 8
	for i := range runs {
		model.Credit(1, 0)
		r.startWorkers(string(rune('a' + i)))
		if _, err := model.request(model.turn(), "1", "2", "3", "4"); err != nil {
			t.Fatal(err)
		}
	}
	last := uint64(40)
	for range runs * 4 {
		got := tools.step()
		if got.Delivery != last+1 {
			t.Fatalf("delivery %d follows %d", got.Delivery, last)
		}
		last = got.Delivery
	}
}

// TestStepIsHeldBeforeItIsSent: when a worker receives a step, the store already knows that the worker has it.
// If the store cannot store that, no worker receives the step.
func TestStepIsHeldBeforeItIsSent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.background()
	full := &machine.Error{Code: machine.CodeResourceExhausted, Reason: "DISK_LOW"}
	r.store.FailHolds(full)
	r.startWorkers("s1")
	model, tools := r.connect("model", modelOnly), r.connect("tools", toolsOnly)
	if _, err := model.request(model.turn(), "a"); err != nil {
		t.Fatal(err)
	}
	r.clock.AwaitAlarm(time.Second)
	nothing(t, "step", tools.steps)
	r.store.FailHolds(nil)
	tools.Credit(0, 1)
	step := later(r, "step", tools.steps)
	if got := r.store.Holders(); len(got) != 1 || got[0] != (machine.StepHolder{Principal: hands.Name(), Worker: "tools", Delivery: step.Delivery}) {
		t.Fatalf("%+v was sent, held by %+v", step.StepLease, got)
	}
}

// TestStepDeadline: the step's own deadline ends its lease.
func TestStepDeadline(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	model, tools := r.connect("model", modelOnly), r.connect("tools", toolsOnly)
	turn, step := r.pendingStep(model, tools)
	r.background()
	for range 5 {
		r.clock.AwaitAlarm(time.Minute)
		r.clock.Advance(59 * time.Second)
		model.Heartbeat([]string{turn.TurnLease.Token})
	}
	r.clock.AwaitAlarm(5 * time.Second)
	r.clock.Advance(5 * time.Second)
	if got := await(t, "revocation", tools.revoked); got.Step == nil || got.Cause != dispatch.RevokedLeaseExpired {
		t.Fatalf("revoked %+v", got)
	}
	r.wantLost("tools", "DEADLINE_EXCEEDED")
	if got := await(t, "answer", model.answers); got[0].Error.Code != "DEADLINE_EXCEEDED" {
		t.Fatalf("told %+v", got)
	}
	if answer, err := tools.resolve(step, `1`); err != nil || answer.Disposition != machine.IgnoredStale {
		t.Fatalf("a late answer: %v %v", answer.Disposition, err)
	}
}

// TestTurnCrash: the sidecar crashes while a turn with an answered step is out;
// the next execution finds the step under its key and the tool is not run again.
func TestTurnCrash(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	model, tools := r.connect("model", modelOnly), r.connect("tools", toolsOnly)
	_, step := r.pendingStep(model, tools)
	if _, err := tools.resolve(step, `1`); err != nil {
		t.Fatal(err)
	}
	r.restart()
	next, idle := r.connect("next", modelOnly), r.connect("tools", toolsOnly)
	d := next.turn()
	if d.TurnLease.Attempt != 1 || len(d.View.Steps) != 1 || string(d.View.Steps[0].Result) != `1` {
		t.Fatalf("assigned %+v with %+v", d.TurnLease, d.View.Steps)
	}
	answer, err := next.request(d, "a")
	if err != nil || !answer.Steps[0].Replayed || string(answer.Steps[0].Result) != `1` {
		t.Fatalf("asked again: %+v %v", answer.Steps, err)
	}
	nothing(t, "step", idle.steps)
	if s := r.view(d.TurnLease.RunID).State; s.ToolCalls != 1 || s.Turn.Attempt != 1 {
		t.Fatalf("%d calls, attempt %d after a crash", s.ToolCalls, s.Turn.Attempt)
	}
	next.mustComplete(d, "Again")
}

// TestAnswersWhileAway: the worker of a turn is away while the steps of the turn are answered. It receives the
// answers when it is back, even after a restart.
func TestAnswersWhileAway(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"connection lost": false, "sidecar restarted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			model, tools := r.connect("model", modelOnly), r.connect("tools", toolsOnly)
			d, step := r.pendingStep(model, tools)
			if restart {
				r.restart()
				tools = r.connect("tools", toolsOnly, func(req *dispatch.WorkerRequest) { req.Steps = []dispatch.StepLease{step.StepLease} })
				step.StepLease = tools.conn.Steps[0]
			} else {
				model.Close(true)
			}
			if _, err := tools.resolve(step, `1`); err != nil {
				t.Fatal(err)
			}
			nothing(t, "answer", model.answers)
			back := r.connect("model", modelOnly, func(req *dispatch.WorkerRequest) { req.Turns = []dispatch.TurnLease{d.TurnLease} })
			if len(back.conn.Turns) != 1 {
				t.Fatal("the turn was not kept")
			}
			if got := await(t, "answer", back.answers); len(got) != 1 || string(got[0].Result) != `1` {
				t.Fatalf("told %+v", got)
			}
		})
	}
}

// TestStepPauses: after a failed attempt, the next attempt is offered when its pause is over, in this process
// or in the next one. Until then no worker has it.
func TestStepPauses(t *testing.T) {
	t.Parallel()
	for _, restarts := range []bool{false, true} {
		r := newRig(t)
		pack := strings.Replace(onUnknown("return"), `"attempts": 2, `, `"retry": {"initial_sec": 10, "jitter": 0}, `, 1)
		r.register("", pack)
		r.background()
		model, tools := r.connect("model", modelOnly), r.connect("tools", toolsOnly)
		_, step := r.pendingStep(model, tools)
		_, err := r.ResolveStep(context.Background(), runtime.ResolveRequest{
			RunRef: tools.ref(step.StepLease.RunID), TurnToken: step.StepLease.Token, Step: step.StepLease.Step, Tool: step.StepLease.Tool,
			Attempt: step.StepLease.Attempt, Error: machine.Fault{Code: "BUSY"}, RetryAfter: 30 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		if restarts {
			r.restart()
			r.background()
			tools = r.connect("tools", toolsOnly)
		} else {
			tools.Credit(0, 1)
		}
		r.clock.AwaitAlarm(30 * time.Second)
		nothing(t, "step", tools.steps)
		r.clock.Advance(30 * time.Second)
		got := tools.step()
		if got.StepLease.Attempt != 2 || got.StepLease.Step != step.StepLease.Step || got.Left != 300*time.Second {
			t.Fatalf("assigned %+v, %s left", got.StepLease, got.Left)
		}
	}
}
