package dispatch_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// app is a process of the application: it serves runs and offers nothing.
func app(req *dispatch.WorkerRequest) {
	req.Principal, req.Instance = everyone, "process of "+req.ID
	req.Offer = machine.WorkOffer{}
	req.Counts = true
}

func (f *fakeWorker) serve(run string, tools ...string) {
	f.r.t.Helper()
	if err := f.Serve(context.Background(), dispatch.Served{RunID: run, Tools: tools}); err != nil {
		f.r.t.Fatalf("serve %s: %v", run, err)
	}
}

func (f *fakeWorker) unserved(run string, cause dispatch.UnservedCause) {
	f.r.t.Helper()
	if got := await(f.r.t, "end of the serving", f.left); got != (unserved{run, cause}) {
		f.r.t.Fatalf("told %+v, want %s for cause %d", got, run, cause)
	}
}

// TestServedRun: the worker that serves a run of CALLER executes it turn after turn, with the steps of its
// tools, until the run ends. Capacities and credits do not limit it.
func TestServedRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	others, mine := r.connect("others"), r.connect("mine", app)
	run := r.start("c1")
	mine.serve(run.RunID, "run_tests")
	d := mine.turn()
	if _, err := mine.request(d, "a", "b"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := mine.resolve(mine.step(), `{}`); err != nil {
			t.Fatal(err)
		}
		await(t, "answer", mine.answers)
	}
	mine.mustComplete(d, "Again")
	mine.mustComplete(mine.turn(), "Finish")
	mine.mustComplete(mine.turn(), "")
	mine.unserved(run.RunID, dispatch.UnservedEnded)
	nothing(t, "turn", others.turns)
	nothing(t, "step", others.steps)
	if mine.Serving() != 0 || r.Work.Serves(runtime.RunKey{ID: run.RunID}) {
		t.Fatal("a run that has ended is served")
	}
}

// TestServedToolsOfOthers: steps of tools that the serving worker does not have go to the workers that offer
// them. When a worker begins to serve the run, it gets the waiting steps of its own tools.
func TestServedToolsOfOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	mine := r.connect("mine", app)
	run := r.start("c1")
	mine.serve(run.RunID, "write_file")
	d := mine.turn()
	if _, err := mine.request(d, "a"); err != nil {
		t.Fatal(err)
	}
	others := r.connect("others", toolsOnly)
	if step := others.step(); step.StepLease.RunID != run.RunID {
		t.Fatalf("assigned %+v", step)
	}
	if _, err := mine.request(d, "b"); err != nil {
		t.Fatal(err)
	}
	mine.serve(run.RunID, "*")
	if step := mine.step(); string(step.Step.Payload) != `{"path":"b"}` {
		t.Fatalf("assigned %+v", step)
	}
}

// TestServedTokens: while a worker serves a run, no turn token is valid, and none is given.
func TestServedTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	mine := r.connect("mine", app)
	run := r.start("c1")
	mine.serve(run.RunID)
	d := mine.turn()
	_, err := r.EmitEvent(context.Background(), runtime.EmitRequest{
		RunRef: ref(run.RunID, everyone), Event: "Again", EventID: "e", TurnToken: run.Turn.Token,
	})
	wantReason(t, err, "TURN_LEASED")
	_, err = r.GetTurn(context.Background(), ref(run.RunID, everyone))
	wantReason(t, err, "TURN_LEASED")
	if answer := mine.mustComplete(d, "Again"); answer.Turn.Token != "" {
		t.Fatal("the completion under a lease gave a token")
	}
	next := mine.turn()
	mine.Release(run.RunID)
	if got := await(t, "revocation", mine.revoked); got.Turn.Token != next.TurnLease.Token {
		t.Fatalf("revoked %+v", got)
	}
	if _, err := r.GetTurn(context.Background(), ref(run.RunID, everyone)); err != nil {
		t.Fatalf("after the release: %v", err)
	}
}

// TestServedWaits: a run that only an input from outside can continue is no longer served. If a worker serves
// it again after the input, it continues.
func TestServedWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	mine := r.connect("mine", app)
	run := r.start("c1")
	mine.serve(run.RunID)
	d := mine.turn()
	_, err := r.CompleteTurn(context.Background(), runtime.CompleteRequest{TurnCall: mine.turnCall(d), Await: machine.AwaitInput})
	if err != nil {
		t.Fatal(err)
	}
	mine.unserved(run.RunID, dispatch.UnservedWaiting)
	if _, err := r.SendInput(context.Background(), runtime.InputRequest{RunRef: ref(run.RunID, everyone), MessageID: "m1", Parts: []machine.Part{{Kind: machine.PartText, Text: "go on"}}}); err != nil {
		t.Fatal(err)
	}
	nothing(t, "turn", mine.turns)
	mine.serve(run.RunID)
	if next := mine.turn(); next.Turn == d.Turn {
		t.Fatal("the same turn came again")
	}
}

// TestTakenOver: another worker takes a run over. The first worker receives the revocation, its completion
// comes too late, and it does not take the run back when it connects again.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, second := r.connect("first", app), r.connect("second", app)
	run := r.start("c1")
	first.serve(run.RunID)
	d := first.turn()
	second.serve(run.RunID)
	if got := await(t, "revocation", first.revoked); got.Turn.Token != d.TurnLease.Token || got.Cause != dispatch.RevokedSuperseded {
		t.Fatalf("revoked %+v", got)
	}
	first.unserved(run.RunID, dispatch.UnservedTaken)
	again := second.turn()
	if again.TurnLease.Delivery <= d.TurnLease.Delivery {
		t.Fatalf("delivery %d after %d", again.TurnLease.Delivery, d.TurnLease.Delivery)
	}
	_, err := first.complete(d, "Again")
	wantReason(t, err, "TURN_TOKEN_STALE")
	back := r.connect("first", app, func(req *dispatch.WorkerRequest) {
		req.Served, req.Turns = []dispatch.Served{{RunID: run.RunID}}, []dispatch.TurnLease{d.TurnLease}
	})
	back.unserved(run.RunID, dispatch.UnservedTaken)
	if len(back.conn.Turns) != 0 {
		t.Fatal("the first one keeps the turn")
	}
	second.mustComplete(again, "Again")
	second.turn()
}

// TestServedReconnect: a worker that lost its connection continues with its turn and its step. Nothing expires
// while it is away.
func TestServedReconnect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.background()
	mine := r.connect("mine", app)
	run := r.start("c1")
	mine.serve(run.RunID, "*")
	d := mine.turn()
	if _, err := mine.request(d, "a"); err != nil {
		t.Fatal(err)
	}
	step := mine.step()
	mine.Close(true)
	back := r.connect("mine", app, func(req *dispatch.WorkerRequest) {
		req.Served = []dispatch.Served{{RunID: run.RunID, Tools: []string{"*"}}}
		req.Turns, req.Steps, req.Received = []dispatch.TurnLease{d.TurnLease}, []dispatch.StepLease{step.StepLease}, step.Delivery
	})
	if len(back.conn.Turns) != 1 || len(back.conn.Steps) != 1 {
		t.Fatalf("keeps %+v", back.conn)
	}
	d.TurnLease, step.StepLease = back.conn.Turns[0], back.conn.Steps[0]
	if _, err := back.resolve(step, `{}`); err != nil {
		t.Fatal(err)
	}
	back.mustComplete(d, "Again")
	d = back.turn()
	back.Close(true)
	r.clock.Advance(30 * time.Minute) // Less than the run's wall time.
	last := r.connect("another", app)
	last.serve(run.RunID, "*")
	if got := last.turn(); got.Turn != d.Turn || got.TurnLease.Attempt != 1 {
		t.Fatalf("after half an hour: %+v", got.TurnLease)
	}
}

// TestServedLost: the process dies while its tool runs. The outcome of the step is unknown, as for any worker,
// and the attempt is not repeated as if it had not been made.
func TestServedLost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.background()
	mine := r.connect("mine", app)
	run := r.start("c1")
	mine.serve(run.RunID, "*")
	if _, err := mine.request(mine.turn(), "a"); err != nil {
		t.Fatal(err)
	}
	mine.step()
	mine.Close(true)
	next := r.connect("next", app)
	next.serve(run.RunID, "*")
	next.turn()
	r.clock.AwaitAlarm(5 * time.Second)
	r.clock.Advance(5 * time.Second)
	if got := await(t, "answer", next.answers); len(got) != 1 || got[0].Error.Code != "WORKER_LOST" {
		t.Fatalf("told %+v", got)
	}
	nothing(t, "step", next.steps)
}

// TestServedUndeliverable: ten connections of the process that serves a run are lost with the same turn. This
// ends the run, even if no worker served the run between these connections. A connection that comes back with
// the turn has not lost it.
func TestServedUndeliverable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("c1")
	first := r.connect("mine", app)
	first.serve(run.RunID)
	d := first.turn()
	for range 2 * 10 {
		first.Close(true)
		first = r.connect("mine", app, func(req *dispatch.WorkerRequest) {
			req.Served, req.Turns = []dispatch.Served{{RunID: run.RunID}}, []dispatch.TurnLease{d.TurnLease}
		})
		if len(first.conn.Turns) != 1 {
			t.Fatalf("keeps %+v", first.conn)
		}
		d.TurnLease = first.conn.Turns[0]
	}
	first.Close(true)
	for i := range 9 {
		w := r.connect("mine", app)
		w.serve(run.RunID)
		if again := w.turn(); again.Turn != d.Turn || again.TurnLease.Attempt != 1 {
			t.Fatalf("delivery %d: %+v", i, again.TurnLease)
		}
		w.Close(true)
	}
	if s := r.settled(run.RunID, machine.Escalated); s.Reason != "turn_undeliverable" {
		t.Fatalf("reason %q", s.Reason)
	}
}

// TestServedBounds: when a worker connects again, it names what it serves in one message. It gets no more than
// it can name there: no more runs, no longer names of tools, no more steps at once. Further steps, of any run,
// wait until it has answered others.
func TestServedBounds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Work.MaxMessageBytes = 3 * 400
	r.restart()
	mine := r.connect("mine", app)
	var turns []dispatch.TurnDelivery
	for i := range 3 {
		mine.serve(r.start(fmt.Sprint("c", i)).RunID, "*")
		turns = append(turns, mine.turn())
	}
	err := mine.Serve(context.Background(), dispatch.Served{RunID: r.start("c3").RunID})
	wantReason(t, err, "MAX_SERVED_RUNS")
	err = mine.Serve(context.Background(), dispatch.Served{RunID: turns[0].TurnLease.RunID, Tools: []string{"*", strings.Repeat("x", 400)}})
	wantReason(t, err, "MAX_SERVED_RUNS")
	for i, d := range turns {
		if _, err := mine.request(d, fmt.Sprint(i, "a"), fmt.Sprint(i, "b"), fmt.Sprint(i, "c")); err != nil {
			t.Fatal(err)
		}
	}
	held := []dispatch.StepDelivery{mine.step(), mine.step(), mine.step()}
	for given := 3; len(held) > 0; {
		nothing(t, "step", mine.steps)
		if _, err := mine.resolve(held[0], `{}`); err != nil {
			t.Fatal(err)
		}
		if held = held[1:]; given < 9 {
			held = append(held, mine.step())
			given++
		}
	}
}

// TestServedLeaseExpires: a worker that serves a run and sends no heartbeat has used up an attempt.
func TestServedLeaseExpires(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.background()
	mine := r.connect("mine", app)
	run := r.start("c1")
	mine.serve(run.RunID)
	mine.turn()
	r.clock.AwaitAlarm(time.Minute)
	r.clock.Advance(time.Minute)
	if got := await(t, "revocation", mine.revoked); got.Cause != dispatch.RevokedLeaseExpired {
		t.Fatalf("revoked %+v", got)
	}
	if got := later(r, "second attempt", mine.turns); got.TurnLease.Attempt != 2 {
		t.Fatalf("attempt %d", got.TurnLease.Attempt)
	}
}

// TestServedTurnGivenBack: a worker that gives a turn back no longer serves the run, so that it does not get
// the turn again and again. Another worker can continue.
func TestServedTurnGivenBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	mine := r.connect("mine", app)
	run := r.start("c1")
	mine.serve(run.RunID)
	if err := mine.ReleaseTurn(mine.turn().TurnLease.Token); err != nil {
		t.Fatal(err)
	}
	if mine.Serving() != 0 {
		t.Fatal("it serves the run still")
	}
	other := r.connect("other", app)
	other.serve(run.RunID)
	other.turn()
	nothing(t, "turn", mine.turns)
	nothing(t, "revocation", mine.revoked)
}

// TestStepOutlivesItsServing: a worker keeps the step that its tool executes over a new connection, even if
// the run is not served any more.
func TestStepOutlivesItsServing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	mine := r.connect("mine", app)
	run := r.start("c1")
	mine.serve(run.RunID, "*")
	if _, err := mine.request(mine.turn(), "a"); err != nil {
		t.Fatal(err)
	}
	step := mine.step()
	mine.Release(run.RunID)
	mine.Close(true)
	back := r.connect("mine", app, func(req *dispatch.WorkerRequest) {
		req.Steps, req.Received = []dispatch.StepLease{step.StepLease}, step.Delivery
	})
	if len(back.conn.Steps) != 1 {
		t.Fatalf("keeps %+v", back.conn.Steps)
	}
	step.StepLease = back.conn.Steps[0]
	if answer, err := back.resolve(step, `{}`); err != nil || answer.Disposition != machine.Accepted {
		t.Fatalf("%v, %v", answer.Disposition, err)
	}
}

// TestNobodyKeepsWhatItDoesNotServe: a worker says that it holds the turn of a run of CALLER, but it does not
// serve the run. It gets no lease, even if it offers all work.
func TestNobodyKeepsWhatItDoesNotServe(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("c1")
	claim := dispatch.TurnLease{RunID: run.RunID, Turn: run.Turn.Seq, Attempt: 1, Delivery: 1}
	w := r.connect("hands", func(req *dispatch.WorkerRequest) { req.Turns = []dispatch.TurnLease{claim} })
	if len(w.conn.Turns) != 0 {
		t.Fatalf("keeps %+v", w.conn.Turns)
	}
	mine := r.connect("mine", app)
	mine.serve(run.RunID)
	mine.turn()
}

// TestServeRefused: a worker may not serve an unknown run or a run of WORKERS, nor serve without the scope for
// it.
func TestServeRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	mine, run := r.connect("mine", app), r.start("c1")
	workers := r.startWorkers("s1")
	for _, c := range []struct {
		by   *fakeWorker
		run  string
		want string
	}{
		{mine, "01ARZ3NDEKTSV4RRFFQ69G5FAV", "RUN_NOT_FOUND"},
		{mine, workers.RunID, "TURN_LEASED"},
		{r.connect("hands"), run.RunID, "SCOPE_MISSING"},
		{r.connect("other hands"), "01ARZ3NDEKTSV4RRFFQ69G5FAV", "SCOPE_MISSING"},
		{r.connect("reader", func(req *dispatch.WorkerRequest) { req.Principal.Scopes |= runtime.ScopeRunsRead }), run.RunID, "SCOPE_MISSING"},
	} {
		wantReason(t, c.by.Serve(context.Background(), dispatch.Served{RunID: c.run}), c.want)
	}
	_, err := r.Work.Connect(context.Background(), dispatch.WorkerRequest{
		Call: runtime.Call{Principal: runtime.Principal{Subject: "app", Scopes: runtime.ScopeRunsWrite}}, ID: "offers", Sink: mine,
		Offer: machine.WorkOffer{Prompts: []string{"*"}, Turns: 1},
	})
	wantReason(t, err, "SCOPE_MISSING")
}
