package grpcapi

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/expr"
	"github.com/pawl-dev/pawl/internal/runtime/ratelimit"
)

// limit puts one entry about models in force, and lets the room work.
func (r *rig) limit(l ratelimit.Limit) {
	r.t.Helper()
	language, err := ratelimit.Language()
	if err != nil {
		r.t.Fatal(err)
	}
	l.ID, l.Source = "gpt", "model"
	if l.Key, err = language.Compile(l.Source, expr.Text); err != nil {
		r.t.Fatal(err)
	}
	r.engine.Admission.Replace(&ratelimit.Table{Tenant: "tenant", Limits: []*ratelimit.Limit{&l}})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.engine.Admission.Run(ctx)
	}()
	r.t.Cleanup(func() { stop(); <-ended })
}

func requestModel(turn *pawlv1.TurnRef) *pawlv1.RequestModelRequest {
	return modelRequest(turn, 1, &pawlv1.ModelRequest{Model: "gpt"})
}

// waitingFor waits until a run waits for limits, or no longer does.
func (r *rig) waitingFor(ctx context.Context, run string, waits bool) *pawlv1.Run {
	r.t.Helper()
	var got *pawlv1.GetRunResponse
	eventually(r.t, "the run waits or not", func() bool {
		var err error
		if got, err = r.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: run}); err != nil {
			r.t.Fatal(err)
		}
		return len(got.GetRun().GetLimitWaits()) > 0 == waits
	})
	return got.GetRun()
}

// TestWaitingForLimits: a call of a model waits before it is recorded, the run says for what,
// and goes on when the one before it has its answer; who no longer waits has no place.
func TestWaitingForLimits(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.limit(ratelimit.Limit{Concurrent: 1})
	first, second, third := r.start(ctx).GetTurn(), r.startOnly(ctx).GetTurn(), r.startOnly(ctx).GetTurn()
	asked, err := r.runs.RequestModel(ctx, requestModel(first))
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		got *pawlv1.RequestModelResponse
		err error
	}
	ask := func(ctx context.Context, turn *pawlv1.TurnRef) <-chan answer {
		out := make(chan answer, 1)
		go func() {
			got, err := r.runs.RequestModel(ctx, requestModel(turn))
			out <- answer{got, err}
		}()
		return out
	}
	impatient, leave := context.WithCancel(ctx)
	gone := ask(impatient, second)
	run := r.waitingFor(ctx, second.GetRunId(), true)
	if w := run.GetLimitWaits()[0]; w.GetModel() != "gpt" || w.GetLimits()[0].GetLimit() != "gpt" || w.GetLimits()[0].GetKey() != "gpt" || run.GetLastStep() != 0 {
		t.Errorf("waits for %v, step %d", w, run.GetLastStep())
	}
	list, err := r.runs.ListRuns(ctx, &pawlv1.ListRunsRequest{})
	if err != nil || len(list.GetRuns()[1].GetLimitWaits()) != 1 || len(list.GetRuns()[0].GetLimitWaits())+len(list.GetRuns()[2].GetLimitWaits()) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	control := pawlv1.NewControlServiceClient(r.dial())
	limits, err := control.ListLimits(ctx, &pawlv1.ListLimitsRequest{})
	if use := limits.GetLimits()[0].GetUses()[0]; err != nil || use.GetOpen() != 1 || use.GetWaiting()[0].GetCalls() != 1 || limits.GetLimits()[0].GetKey() != "model" {
		t.Errorf("%v, %v", limits, err)
	}
	leave()
	if a := <-gone; status.Code(a.err) != codes.Canceled {
		t.Errorf("%v", a.err)
	}
	r.waitingFor(ctx, second.GetRunId(), false)
	late := ask(ctx, third)
	r.waitingFor(ctx, third.GetRunId(), true)
	if _, err = r.runs.AnswerModel(ctx, &pawlv1.AnswerModelRequest{
		RunId: first.GetRunId(), Step: asked.GetStep().GetStep(), Attempt: 1, TurnToken: first.GetToken(), Outcome: &pawlv1.AnswerModelRequest_Answer{Answer: spoken("Hello.")},
	}); err != nil {
		t.Fatal(err)
	}
	if a := <-late; a.err != nil || a.got.GetStep().GetStatus() != pawlv1.StepStatus_STEP_STATUS_PENDING {
		t.Errorf("%v, %v", a.got, a.err)
	}
	cancelled := ask(ctx, second)
	r.waitingFor(ctx, second.GetRunId(), true)
	if _, err = r.runs.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: second.GetRunId()}); err != nil {
		t.Fatal(err)
	}
	if a := <-cancelled; status.Code(a.err) != codes.FailedPrecondition {
		t.Errorf("a call of a run that ended: %v, %v", a.got, a.err)
	}
}

// TestWaitingBlocksNoOtherRun: more calls of one stream wait for limits than its requests have room,
// and the answer that they wait for is read all the same.
func TestWaitingBlocksNoOtherRun(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.limit(ratelimit.Limit{Concurrent: 1})
	r.register(ctx)
	h := r.registerWorker(ctx, &pawlv1.WorkerRegistration{WorkerId: "app", Batches: true})
	served := func() *pawlv1.TurnLease {
		h.send(serveRun(r.startOnly(ctx).GetRun().GetRunId()))
		return h.turn().GetLease()
	}
	ask := func(lease *pawlv1.TurnLease) uint64 {
		return h.send(&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_RequestModel{RequestModel: requestModel(leased(lease))}})
	}
	holder := served()
	held, err := h.receipt(ask(holder))
	if err != nil {
		t.Fatal(err)
	}
	const many = requestsInFlight + 8
	for range many {
		ask(served())
	}
	eventually(t, "they all wait", func() bool { return queued(r) == many })
	if _, err := h.ask(&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_AnswerModel{
		AnswerModel: modelAnswer(leased(holder), held.GetRequestModel().GetStep(), spoken("Hello.")),
	}}); err != nil {
		t.Fatal(err)
	}
	// One of them has its place now; the others go when the stream does.
	eventually(t, "the next one goes on", func() bool { return queued(r) == many-1 })
}

// TestATakenRunWaitsForNoLimit: the turn of a run goes to the worker that takes it over, while a call of
// the worker before waits for the operator's limits.
func TestATakenRunWaitsForNoLimit(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.limit(ratelimit.Limit{Concurrent: 1})
	if _, err := r.runs.RequestModel(ctx, requestModel(r.start(ctx).GetTurn())); err != nil {
		t.Fatal(err)
	}
	run := r.startOnly(ctx).GetRun().GetRunId()
	first, second := r.registerWorker(ctx, &pawlv1.WorkerRegistration{WorkerId: "a"}), r.registerWorker(ctx, &pawlv1.WorkerRegistration{WorkerId: "b"})
	first.send(serveRun(run))
	first.send(&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_RequestModel{RequestModel: requestModel(leased(first.turn().GetLease()))}})
	r.waitingFor(ctx, run, true)
	second.send(serveRun(run))
	if lease := second.turn().GetLease(); lease.GetRunId() != run {
		t.Fatalf("got %v", lease)
	}
}

func leased(lease *pawlv1.TurnLease) *pawlv1.TurnRef {
	return &pawlv1.TurnRef{RunId: lease.GetRunId(), TurnSeq: lease.GetTurnSeq(), Attempt: lease.GetAttempt(), Token: lease.GetToken()}
}

func queued(r *rig) (n int) {
	for _, f := range r.engine.Admission.Figures() {
		n += int(f.QueuedCalls())
	}
	return n
}

// TestProvidersAreHeard: what a provider asks for with a failure is what the next call, and
// the executor's next attempt, wait for.
func TestProvidersAreHeard(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.limit(ratelimit.Limit{PerMinute: 600, TrackProvider: true})
	first, second := r.start(ctx).GetTurn(), r.startOnly(ctx).GetTurn()
	asked, err := r.runs.RequestModel(ctx, requestModel(first))
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.runs.AnswerModel(ctx, &pawlv1.AnswerModelRequest{
		RunId: first.GetRunId(), Step: asked.GetStep().GetStep(), Attempt: 1, TurnToken: first.GetToken(),
		Outcome:        &pawlv1.AnswerModelRequest_Failure{Failure: &pawlv1.ModelFailure{Error: &pawlv1.Fault{Code: "MODEL_RATE_LIMITED"}}},
		ProviderLimits: &pawlv1.ProviderLimits{Requests: new(int64), RequestsReset: durationpb.New(30 * time.Second)},
	})
	if err != nil || got.GetNext() != 2 || got.GetWait().AsDuration() < 29*time.Second {
		t.Fatalf("%v, %v", got, err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := r.runs.RequestModel(ctx, requestModel(second))
		answered <- err
	}()
	r.waitingFor(ctx, second.GetRunId(), true)
	for over := false; !over; {
		r.clock.Advance(time.Second)
		select {
		case err := <-answered:
			if over = true; err != nil {
				t.Fatal(err)
			}
		default:
			r.waitingFor(ctx, first.GetRunId(), false)
		}
	}
	if r.clock.Elapsed() < 30*time.Second {
		t.Errorf("the next call began after %s, the provider asked for 30 s", r.clock.Elapsed())
	}
}
