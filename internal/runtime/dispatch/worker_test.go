package dispatch_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
)

var hands = runtime.Principal{Subject: "hands", Scopes: runtime.ScopeWork}

// fakeWorker is a worker, and the sink that receives what the dispatcher sends to the worker.
type fakeWorker struct {
	*dispatch.Worker
	r       *rig
	conn    dispatch.Connection
	turns   chan dispatch.TurnDelivery
	steps   chan dispatch.StepDelivery
	revoked chan dispatch.Revocation
	answers chan []history.StepView
	left    chan unserved
	ended   chan error
	// refuse is the error that PrepareTurn returns.
	refuse error
}

func (f *fakeWorker) PrepareTurn(d dispatch.TurnDelivery) (func(), error) {
	return func() { f.turns <- d }, f.refuse
}

func (f *fakeWorker) PrepareStep(d dispatch.StepDelivery) (func(), error) {
	return func() { f.steps <- d }, nil
}

func (f *fakeWorker) Revoke(r dispatch.Revocation) { f.revoked <- r }

func (f *fakeWorker) StepsAnswered(_ string, _ uint64, steps []history.StepView) { f.answers <- steps }

func (f *fakeWorker) Unserved(run string, cause dispatch.UnservedCause) {
	f.left <- unserved{run, cause}
}

func (f *fakeWorker) End(err error) { f.ended <- err }

// unserved is a notice to a worker that it no longer serves a run.
type unserved struct {
	run   string
	cause dispatch.UnservedCause
}

// connect adds a worker that serves all prompts and tools, with one credit of each kind.
func (r *rig) connect(id string, with ...func(*dispatch.WorkerRequest)) *fakeWorker {
	r.t.Helper()
	f := &fakeWorker{
		r: r, turns: make(chan dispatch.TurnDelivery, 64), steps: make(chan dispatch.StepDelivery, 64),
		revoked: make(chan dispatch.Revocation, 64), answers: make(chan []history.StepView, 64), ended: make(chan error, 1),
		left: make(chan unserved, 64),
	}
	req := dispatch.WorkerRequest{
		Call: runtime.Call{Principal: hands}, ID: id, Sink: f,
		Offer: machine.WorkOffer{Prompts: []string{"*"}, Tools: []string{"*"}, Turns: 4, Steps: 4},
	}
	for _, w := range with {
		w(&req)
	}
	conn, err := r.Work.Connect(context.Background(), req)
	if err != nil {
		r.t.Fatalf("connect %s: %v", id, err)
	}
	f.Worker, f.conn = conn.Worker, conn
	f.Credit(1, 1)
	return f
}

// within is the longest time that a test waits for something that must arrive.
const within = 60 * time.Second

// later advances the clock by one second at a time until a value arrives. It doubles its pause
// after each second, so that no lease ends meanwhile on a slow machine.
func later[T any](r *rig, what string, from <-chan T) T {
	r.t.Helper()
	deadline := time.After(within)
	for pause := time.Millisecond; ; pause *= 2 {
		select {
		case got := <-from:
			return got
		case <-time.After(pause):
			r.clock.Advance(time.Second)
		case <-deadline:
			r.t.Fatalf("no %s", what)
		}
	}
}

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

func (f *fakeWorker) turn() dispatch.TurnDelivery {
	f.r.t.Helper()
	return await(f.r.t, "turn", f.turns)
}

func (f *fakeWorker) step() dispatch.StepDelivery {
	f.r.t.Helper()
	return await(f.r.t, "step", f.steps)
}

func (f *fakeWorker) ref(run string) runtime.RunRef {
	return runtime.RunRef{Call: f.Call(), RunID: run}
}

func (f *fakeWorker) turnCall(d dispatch.TurnDelivery) runtime.TurnCall {
	return runtime.TurnCall{RunRef: f.ref(d.TurnLease.RunID), TurnToken: d.TurnLease.Token, TurnSeq: d.Turn, Attempt: d.TurnLease.Attempt}
}

// complete ends a turn with an event.
func (f *fakeWorker) complete(d dispatch.TurnDelivery, event string) (runtime.Answer, error) {
	return f.r.CompleteTurn(context.Background(), runtime.CompleteRequest{TurnCall: f.turnCall(d), Event: event})
}

func (f *fakeWorker) mustComplete(d dispatch.TurnDelivery, event string) runtime.Answer {
	f.r.t.Helper()
	answer, err := f.complete(d, event)
	if err != nil {
		f.r.t.Fatalf("complete %v: %v", d.TurnLease, err)
	}
	return answer
}

// request asks for calls of run_tests, one per path.
func (f *fakeWorker) request(d dispatch.TurnDelivery, paths ...string) (runtime.Answer, error) {
	req := runtime.StepsRequest{TurnCall: f.turnCall(d)}
	for _, path := range paths {
		req.Requests = append(req.Requests, machine.StepRequest{Tool: "run_tests", Payload: fmt.Appendf(nil, `{"path":%q}`, path)})
	}
	return f.r.RequestSteps(context.Background(), req)
}

func (f *fakeWorker) resolve(d dispatch.StepDelivery, result string) (runtime.Answer, error) {
	return f.r.ResolveStep(context.Background(), runtime.ResolveRequest{
		RunRef: f.ref(d.StepLease.RunID), TurnToken: d.StepLease.Token, Step: d.StepLease.Step, Tool: d.StepLease.Tool,
		Attempt: d.StepLease.Attempt, OK: true, Result: []byte(result),
	})
}

func (r *rig) startWorkers(id string) runtime.Answer {
	r.t.Helper()
	req := startRequest(id)
	req.Execution = machine.Workers
	return r.startWith(req)
}

// kinds lists the record kinds of a run.
func (r *rig) kinds(run string) []machine.RecordKind {
	r.t.Helper()
	page, err := r.ListTransitions(context.Background(), streams.ListRecordsRequest{
		RunRef: ref(run, everyone), PageSize: 1000, Kinds: allKinds,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	var kinds []machine.RecordKind
	for i := range page.Records {
		kinds = append(kinds, machine.RecordKindOf(page.Records[i].Record.Body))
	}
	return kinds
}

// nothing fails the test if a value has arrived already. It does not wait, because its callers ask
// for values that cannot arrive.
func nothing[T any](t testing.TB, what string, from <-chan T) {
	t.Helper()
	select {
	case got := <-from:
		t.Fatalf("a %s came: %+v", what, got)
	default:
	}
}

// settled waits until the run has the status, because the engine makes its own inputs at a later time.
func (r *rig) settled(run string, status machine.Status) *machine.State {
	r.t.Helper()
	deadline := time.Now().Add(within)
	for after := uint64(0); ; {
		s, _, err := r.WaitRun(context.Background(), streams.WaitRequest{RunRef: ref(run, everyone), AfterSeq: after, Most: 0})
		if err != nil {
			r.t.Fatal(err)
		}
		if s.Status == status {
			return s
		}
		if s.Status.Terminal() || time.Now().After(deadline) {
			r.t.Fatalf("the run is %v (%s), want %v", s.Status, s.Reason, status)
		}
		after = s.Seq
	}
}

// TestWorkerLoop: a worker receives one turn of a run after the other until the run ends. The
// journal has the worker and the delivery of each turn.
func TestWorkerLoop(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.startWorkers("s1")
	w := r.connect("w1")
	for i := range 3 {
		d := w.turn()
		if d.View.System == "" || d.TurnLease.Delivery != 1 || d.View.Events == nil {
			t.Fatalf("turn %d: %+v", i, d)
		}
		w.mustComplete(d, "Again")
		w.Credit(1, 0)
	}
	w.mustComplete(w.turn(), "Finish")
	w.Credit(1, 0)
	last := w.turn()
	answer := w.mustComplete(last, "")
	if answer.State.Status != machine.Completed {
		t.Fatalf("ended %v", answer.State.Status)
	}
	again := w.mustComplete(last, "")
	if !again.Duplicate {
		t.Fatal("the same completion again is no duplicate")
	}
	kinds := r.kinds(run.RunID)
	assigned := 0
	for _, k := range kinds {
		if k == machine.RecTurnAssigned {
			assigned++
		}
	}
	if assigned != 5 {
		t.Fatalf("%d TurnAssigned among %v, want 5", assigned, kinds)
	}
	if turns, steps := w.Held(); turns+steps != 0 {
		t.Fatalf("holds %d turns and %d steps after the end", turns, steps)
	}
}

// TestCallerRunNeedsNoWorker: the turns of a run of CALLER never go to workers.
func TestCallerRunNeedsNoWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.connect("w1")
	caller := r.start("c1")
	r.emit(caller.RunID, "Again", "e1", caller.Turn.Token)
	mine := r.startWorkers("s1")
	if d := w.turn(); d.TurnLease.RunID != mine.RunID {
		t.Fatalf("was sent a turn of %s", d.TurnLease.RunID)
	}
	nothing(t, "turn", w.turns)
	_, err := r.CompleteTurn(context.Background(), runtime.CompleteRequest{
		TurnCall: runtime.TurnCall{RunRef: w.ref(caller.RunID), TurnToken: "token-1", TurnSeq: 1, Attempt: 1}, Event: "Again",
	})
	wantReason(t, err, "TURN_TOKEN_STALE")
	_, err = r.EmitEvent(context.Background(), runtime.EmitRequest{RunRef: ref(mine.RunID, everyone), Event: "Again"})
	wantReason(t, err, "TURN_LEASED")
}

// TestDisconnect: if a worker disconnects, its turn goes to another worker at once, with a new
// delivery number and the same attempt. The token of the first worker is stale.
func TestDisconnect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startWorkers("s1")
	a := r.connect("a")
	first := a.turn()
	b := r.connect("b")
	a.Close(true)
	second := b.turn()
	if second.TurnLease.Delivery != 2 || second.TurnLease.Attempt != 1 || second.Turn != first.Turn {
		t.Fatalf("delivered again as %+v", second.TurnLease)
	}
	answer := b.mustComplete(second, "Again")
	if answer.State.Turn.Attempt != 1 {
		t.Fatalf("attempt %d after a disconnect", answer.State.Turn.Attempt)
	}
	_, err := a.complete(first, "Finish")
	wantReason(t, err, "TURN_TOKEN_STALE")
}

// TestFirstCompletionWins: the first completion of a turn is accepted, even if it comes from an
// older delivery. The worker that has the newer delivery receives a revocation.
func TestFirstCompletionWins(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startWorkers("s1")
	a := r.connect("a")
	first := a.turn()
	b := r.connect("b")
	a.Close(true)
	second := b.turn()
	back := r.connect("a")
	first.View.Token = ""
	answer, err := r.CompleteTurn(context.Background(), runtime.CompleteRequest{TurnCall: back.turnCall(first), Event: "Again"})
	if err != nil || answer.State.Turn.Seq == first.Turn {
		t.Fatalf("the older delivery's completion: %v", err)
	}
	if got := await(t, "revocation", b.revoked); got.Turn == nil || got.Turn.Token != second.TurnLease.Token || got.Cause != dispatch.RevokedSuperseded {
		t.Fatalf("revoked %+v", got)
	}
	same, err := b.complete(second, "Again")
	if err != nil || !same.Duplicate {
		t.Fatalf("the same completion of the other: duplicate %v, %v", same.Duplicate, err)
	}
	_, err = b.complete(second, "Finish")
	wantReason(t, err, "TURN_TOKEN_STALE")
}

// TestUndeliverable: a turn that takes ten workers down ends its run; drain
// notices and releases do not count.
func TestUndeliverable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.startWorkers("s1")
	for i := range 3 {
		w := r.connect(fmt.Sprint("d", i))
		d := w.turn()
		if i == 0 {
			if err := w.ReleaseTurn(d.TurnLease.Token); err != nil {
				t.Fatal(err)
			}
		}
		w.Drain()
		w.Close(true)
	}
	for i := range 10 {
		w := r.connect(fmt.Sprint("w", i))
		if d := w.turn(); d.TurnLease.Delivery != 4+i || d.TurnLease.Attempt != 1 {
			t.Fatalf("delivery %d: %+v", i, d.TurnLease)
		}
		w.Close(true)
	}
	if s := r.settled(run.RunID, machine.Escalated); s.Reason != "turn_undeliverable" {
		t.Fatalf("reason %q", s.Reason)
	}
}

// TestKeptIsNotLost: a worker that reconnects with its turn has lost no delivery, however
// often its connection breaks.
func TestKeptIsNotLost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.startWorkers("s1")
	w := r.connect("w")
	d := w.turn()
	for range 2 * 10 {
		w.Close(true)
		w = r.connect("w", func(req *dispatch.WorkerRequest) { req.Turns = []dispatch.TurnLease{d.TurnLease} })
		if len(w.conn.Turns) != 1 {
			t.Fatalf("keeps %+v", w.conn)
		}
		d.TurnLease = w.conn.Turns[0]
	}
	if s := r.view(run.RunID).State; s.Status.Terminal() {
		t.Fatalf("%s, %s", s.Status, s.Reason)
	}
}

// TestLeaseRunsOut: a lease that ends without a heartbeat while its worker is connected counts as
// an attempt. A lease that a heartbeat extends does not.
func TestLeaseRunsOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.background()
	run := r.startWorkers("s1")
	w := r.connect("w")
	d := w.turn()
	r.clock.AwaitAlarm(time.Minute)
	r.clock.Advance(40 * time.Second)
	extended, lost := w.Heartbeat([]string{d.TurnLease.Token, "bogus"})
	if len(extended) != 1 || extended[0].Deadline != d.Deadline+int64(40*time.Second) || !slices.Equal(lost, []string{"bogus"}) {
		t.Fatalf("extended %+v, lost %v", extended, lost)
	}
	r.clock.Advance(40 * time.Second)
	nothing(t, "revocation", w.revoked)
	r.clock.AwaitAlarm(20 * time.Second)
	r.clock.Advance(20 * time.Second)
	if got := await(t, "revocation", w.revoked); got.Cause != dispatch.RevokedLeaseExpired {
		t.Fatalf("revoked %+v", got)
	}
	r.wantLost("w", "LEASE_EXPIRED")
	s := r.settled(run.RunID, machine.Waiting)
	if s.Turn.Attempt != 2 {
		t.Fatalf("attempt %d after a lease that ran out", s.Turn.Attempt)
	}
	_, err := w.complete(d, "Again")
	wantReason(t, err, "TURN_TOKEN_STALE")
	w.Credit(1, 0)
	r.clock.AwaitAlarm(10 * time.Second)
	r.clock.Advance(10 * time.Second)
	if again := w.turn(); again.TurnLease.Attempt != 2 || again.TurnLease.Delivery != 2 {
		t.Fatalf("offered again as %+v", again.TurnLease)
	}
}

// TestRestart: after a restart, each open turn is offered again. A worker that reconnects keeps its
// turn if no other worker has received it.
func TestRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	kept, other := r.startWorkers("s1"), r.startWorkers("s2")
	w := r.connect("w")
	held := w.turn()
	if held.TurnLease.RunID != kept.RunID {
		t.Fatalf("was sent %s first", held.TurnLease.RunID)
	}
	if _, err := w.request(held, "a"); err != nil {
		t.Fatal(err)
	}
	r.restart()
	lease := held.TurnLease
	lease.Requests = 1
	back := r.connect("w", func(req *dispatch.WorkerRequest) {
		req.Turns = []dispatch.TurnLease{lease, {RunID: "01J00000000000000000000099", Turn: 1, Attempt: 1, Delivery: 1}}
	})
	if len(back.conn.Turns) != 1 || back.conn.Turns[0].Delivery != 1 || back.conn.Turns[0].Token == lease.Token {
		t.Fatalf("keeps %+v", back.conn.Turns)
	}
	held.TurnLease = back.conn.Turns[0]
	answer, err := back.request(held, "b")
	if err != nil || answer.Steps[0].Key != "2" {
		t.Fatalf("the next default key is %+v, %v", answer.Steps, err)
	}
	back.mustComplete(held, "Again")
	if d := back.turn(); d.TurnLease.RunID != other.RunID && d.TurnLease.RunID != kept.RunID {
		t.Fatalf("was sent %+v", d.TurnLease)
	}
}

// TestNotKept: a worker that reconnects keeps neither a turn that another worker has received
// meanwhile, nor a lease that it names wrongly.
func TestNotKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startWorkers("s1")
	a := r.connect("a")
	first := a.turn()
	b := r.connect("b")
	a.Close(true)
	second := b.turn()
	for name, lease := range map[string]dispatch.TurnLease{
		"the older delivery":      first.TurnLease,
		"the other's lease":       second.TurnLease,
		"a delivery never made":   {RunID: first.TurnLease.RunID, Turn: first.Turn, Attempt: 1, Delivery: 9},
		"an attempt never made":   {RunID: first.TurnLease.RunID, Turn: first.Turn, Attempt: 2, Delivery: 2},
		"a turn that never opens": {RunID: first.TurnLease.RunID, Turn: 99, Attempt: 1, Delivery: 2},
	} {
		w := r.connect("a", func(req *dispatch.WorkerRequest) { req.Turns = []dispatch.TurnLease{lease} })
		if len(w.conn.Turns) != 0 {
			t.Errorf("%s: keeps %+v", name, w.conn.Turns)
		}
	}
	b.mustComplete(second, "Again")
}

// TestReplaced: a stream that registers with the id of a connected worker replaces that worker. It
// takes over the leases that it names.
func TestReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startWorkers("s1")
	old := r.connect("w")
	held := old.turn()
	fresh := r.connect("w", func(req *dispatch.WorkerRequest) { req.Turns = []dispatch.TurnLease{held.TurnLease} })
	ended := await(t, "end", old.ended)
	wantReason(t, ended, "WORKER_REPLACED")
	if text := ended.Error(); !strings.Contains(text, `do not reconnect: another process registered as worker "w"; give each process its own worker_id`) {
		t.Errorf("the worker is told %q", text)
	}
	if fresh.conn.Replaced == nil {
		t.Error("the replacing stream is not told which worker it replaced")
	}
	if len(fresh.conn.Turns) != 1 {
		t.Fatal("the replacing stream keeps nothing")
	}
	old.Close(true)
	_, err := old.complete(held, "Again")
	wantReason(t, err, "TURN_TOKEN_STALE")
	held.TurnLease = fresh.conn.Turns[0]
	fresh.mustComplete(held, "Again")
	if d := await(t, "turn", fresh.turns); d.TurnLease.Delivery != 1 {
		t.Fatalf("next turn %+v", d.TurnLease)
	}
}

// TestPaused: no turn and no step of a paused run is assigned. A worker may complete the turn that it holds.
func TestPaused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	run := r.startWorkers("s1")
	w := r.connect("w")
	d := w.turn()
	if _, err := r.PauseRun(ctx, runtime.ControlRequest{RunRef: ref(run.RunID, everyone)}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.request(d, "a"); reason(err) != "PAUSED" {
		t.Fatalf("a step of a paused run: %v", err)
	}
	w.Credit(5, 0)
	w.mustComplete(d, "")
	if _, err := r.SendInput(ctx, runtime.InputRequest{RunRef: ref(run.RunID, everyone), Parts: []machine.Part{{Kind: machine.PartText, Text: "go"}}}); err != nil {
		t.Fatal(err)
	}
	other := r.startWorkers("s2")
	if got := w.turn(); got.TurnLease.RunID != other.RunID {
		t.Fatalf("was sent %+v of the paused run", got.TurnLease)
	}
	if _, err := r.ResumeRun(ctx, runtime.ControlRequest{RunRef: ref(run.RunID, everyone)}); err != nil {
		t.Fatal(err)
	}
	if got := w.turn(); got.TurnLease.RunID != run.RunID {
		t.Fatalf("was sent %+v", got.TurnLease)
	}
}

// TestOutsideEvent: an event from outside in a hybrid state takes the turn from its worker at once,
// and cancels the pending steps of the turn.
func TestOutsideEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.startWorkers("s1")
	w := r.connect("w")
	w.mustComplete(w.turn(), "Share")
	w.Credit(1, 0)
	d := w.turn()
	if d.View.State != "desk" {
		t.Fatalf("turn of %s", d.View.State)
	}
	if _, err := r.EmitEvent(context.Background(), runtime.EmitRequest{RunRef: ref(run.RunID, approver), Event: "Taken"}); err != nil {
		t.Fatal(err)
	}
	if got := await(t, "revocation", w.revoked); got.Turn == nil || got.Turn.Turn != d.Turn || got.Cause != dispatch.RevokedAbandoned {
		t.Fatalf("revoked %+v", got)
	}
	_, err := w.complete(d, "Round")
	wantReason(t, err, "TURN_TOKEN_STALE")
	if _, err := r.CancelRun(context.Background(), runtime.ControlRequest{RunRef: ref(run.RunID, everyone)}); err != nil {
		t.Fatal(err)
	}
}

// TestExternalState: the turn of a state that is moved from outside is not
// offered to workers.
func TestExternalState(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.startWorkers("s1")
	w := r.connect("w")
	w.mustComplete(w.turn(), "Ask")
	w.Credit(5, 5)
	other := r.startWorkers("s2")
	if d := w.turn(); d.TurnLease.RunID != other.RunID {
		t.Fatalf("was sent %+v", d.TurnLease)
	}
	if _, err := r.EmitEvent(context.Background(), runtime.EmitRequest{RunRef: ref(run.RunID, approver), Event: "Rejected"}); err != nil {
		t.Fatal(err)
	}
	if d := w.turn(); d.TurnLease.RunID != run.RunID {
		t.Fatalf("was sent %+v", d.TurnLease)
	}
}

// TestUnrendered: a turn that cannot be prepared for a worker fails its attempt, so that the
// dispatcher does not try it for ever.
func TestUnrendered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.background()
	run := r.startWorkers("s1")
	w := r.connect("w", func(req *dispatch.WorkerRequest) { req.Sink.(*fakeWorker).refuse = fmt.Errorf("no way") })
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	s := run.State
	for !s.Status.Terminal() {
		var err error
		if s, _, err = r.WaitRun(ctx, streams.WaitRequest{RunRef: ref(run.RunID, everyone), AfterSeq: s.Seq}); err != nil {
			t.Fatal(err)
		}
		if s.Turn != nil && s.Turn.NotBefore > 0 {
			// The clock moves only to the time of the next attempt. A later time could exceed
			// the wall time of the run.
			r.clock.Advance(time.Duration(s.Turn.NotBefore - r.clock.Now().UnixNano()))
		}
	}
	if s.Status != machine.Escalated || s.Reason != "turn_failed" {
		t.Fatalf("%s, reason %q", s.Status, s.Reason)
	}
	nothing(t, "turn", w.turns)
}

// TestUnserved: runs whose turn no connected worker serves are listed and counted.
func TestUnserved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	list := func() int {
		t.Helper()
		runs, _, err := r.Work.Unserved(context.Background(), dispatch.UnservedRequest{Call: runtime.Call{Principal: everyone}, PageSize: 2})
		if err != nil {
			t.Fatal(err)
		}
		return len(runs)
	}
	r.start("caller")
	first, _ := r.startWorkers("s1"), r.startWorkers("s2")
	if got := list(); got != 2 {
		t.Fatalf("%d runs are unserved without any worker, want 2", got)
	}
	if stats := r.Work.Stats(t.Context(), []uint32{0}); stats != (dispatch.Stats{Waiting: 2, Unserved: 2}) {
		t.Fatalf("without any worker: %+v", stats)
	}
	tools := r.connect("tools", toolsOnly)
	approver := r.connect("approver", func(req *dispatch.WorkerRequest) { req.Offer.Prompts = []string{"approver"} })
	if got := list(); got != 2 {
		t.Fatalf("%d runs are unserved by workers of other prompts, want 2", got)
	}
	third := r.startWorkers("s3")
	if stats := r.Work.Stats(t.Context(), []uint32{0}); stats.Workers != 2 || stats.Unserved == 0 || stats.Waiting < stats.Unserved {
		t.Fatalf("%+v", stats)
	}
	w := r.connect("w", modelOnly)
	w.Credit(3, 0)
	seen := map[string]bool{}
	for range 3 {
		seen[w.turn().TurnLease.RunID] = true
	}
	if !seen[first.RunID] || !seen[third.RunID] || list() != 0 {
		t.Fatalf("with a worker: turns of %v, %d unserved", seen, list())
	}
	if stats := r.Work.Stats(t.Context(), []uint32{0}); stats.Turns != 3 || stats.Unserved != 0 || stats.Workers != 3 {
		t.Fatalf("%+v", stats)
	}
	nothing(t, "turn", tools.turns)
	nothing(t, "turn", approver.turns)
}
