package grpcapi

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// testWorker is a worker at the other end of a stream.
type testWorker struct {
	t      testing.TB
	stream grpc.BidiStreamingClient[pawlv1.WorkRequest, pawlv1.WorkResponse]
	hangUp context.CancelFunc
	ids    uint64
	// responses receives the responses of the stream. failed receives the error at its end.
	responses    chan *pawlv1.WorkResponse
	failed       chan error
	turns        []*pawlv1.TurnAssignment
	steps        []*pawlv1.StepAssignment
	revoked      []*pawlv1.Revocation
	unservedRuns []*pawlv1.RunUnserved
	answers      []*pawlv1.StepAnswers
	receipts     []*pawlv1.WorkReceipt
	serverDrains []*pawlv1.ServerDrain
	registered   *pawlv1.WorkerRegistered
}

func registration(id string) *pawlv1.WorkerRegistration {
	return &pawlv1.WorkerRegistration{WorkerId: id, Prompts: []string{"*"}, Tools: []string{"*"}, TurnCapacity: 4, StepCapacity: 4}
}

// open begins a stream and sends its first request.
func (r *rig) open(ctx context.Context, first *pawlv1.WorkRequest) *testWorker {
	r.t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	r.t.Cleanup(cancel)
	stream, err := pawlv1.NewWorkerServiceClient(r.conn).Work(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	h := &testWorker{t: r.t, stream: stream, hangUp: cancel, responses: make(chan *pawlv1.WorkResponse, 1024), failed: make(chan error, 1)}
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				h.failed <- err
				return
			}
			for _, one := range append([]*pawlv1.WorkResponse{m}, m.GetMore()...) {
				h.responses <- one
			}
		}
	}()
	// A refused stream may have ended before anything is sent. Receiving then returns the reason.
	if err := stream.Send(first); err != nil && !errors.Is(err, io.EOF) {
		r.t.Fatal(err)
	}
	return h
}

// registerWorker registers a worker that serves everything, with one credit of each kind.
func (r *rig) registerWorker(ctx context.Context, reg *pawlv1.WorkerRegistration) *testWorker {
	r.t.Helper()
	h := r.open(ctx, &pawlv1.WorkRequest{
		Credits: &pawlv1.WorkCredits{Turns: 1, Steps: 1}, Item: &pawlv1.WorkRequest_Register{Register: reg},
	})
	h.until("registered", func() bool { return h.registered != nil })
	return h
}

// patience bounds every wait for something that must come. On a machine that is not overloaded, each wait is
// much shorter.
const patience = 60 * time.Second

// until receives responses until done returns true.
func (h *testWorker) until(what string, done func() bool) {
	h.t.Helper()
	late := time.After(patience)
	for !done() {
		select {
		case m := <-h.responses:
			h.keep(m)
		case err := <-h.failed:
			h.failed <- err
			h.t.Fatalf("the stream ended while waiting for %s: %v", what, err)
		case <-late:
			h.t.Fatalf("no %s came", what)
		}
	}
}

func (h *testWorker) keep(m *pawlv1.WorkResponse) {
	switch item := m.GetItem().(type) {
	case *pawlv1.WorkResponse_Registered:
		h.registered = item.Registered
	case *pawlv1.WorkResponse_Turn:
		h.turns = append(h.turns, item.Turn)
	case *pawlv1.WorkResponse_Step:
		h.steps = append(h.steps, item.Step)
	case *pawlv1.WorkResponse_RunUnserved:
		h.unservedRuns = append(h.unservedRuns, item.RunUnserved)
	case *pawlv1.WorkResponse_Revoked:
		h.revoked = append(h.revoked, item.Revoked)
	case *pawlv1.WorkResponse_StepAnswers:
		h.answers = append(h.answers, item.StepAnswers)
	case *pawlv1.WorkResponse_Receipt:
		h.receipts = append(h.receipts, item.Receipt)
	case *pawlv1.WorkResponse_Drain:
		h.serverDrains = append(h.serverDrains, item.Drain)
	}
}

func (h *testWorker) turn() *pawlv1.TurnAssignment {
	h.t.Helper()
	h.until("turn", func() bool { return len(h.turns) > 0 })
	next := h.turns[0]
	h.turns = h.turns[1:]
	return next
}

func (h *testWorker) step() *pawlv1.StepAssignment {
	h.t.Helper()
	h.until("step", func() bool { return len(h.steps) > 0 })
	next := h.steps[0]
	h.steps = h.steps[1:]
	return next
}

// send sends a request and returns its id.
func (h *testWorker) send(req *pawlv1.WorkRequest) uint64 {
	h.t.Helper()
	h.ids++
	req.Id = h.ids
	if err := h.stream.Send(req); err != nil {
		h.t.Fatalf("send: %v", err)
	}
	return req.Id
}

// receipt waits for the receipt of a request.
func (h *testWorker) receipt(id uint64) (*pawlv1.WorkReceipt, error) {
	h.t.Helper()
	late := time.After(patience)
	for {
		select {
		case m := <-h.responses:
			r := m.GetReceipt()
			if r.GetId() == id && r != nil {
				return r, status.FromProto(r.GetError()).Err()
			}
			h.keep(m)
		case err := <-h.failed:
			h.failed <- err
			h.t.Fatalf("the stream ended while waiting for receipt %d: %v", id, err)
		case <-late:
			h.t.Fatalf("no receipt %d came", id)
		}
	}
}

func (h *testWorker) ask(req *pawlv1.WorkRequest) (*pawlv1.WorkReceipt, error) {
	h.t.Helper()
	return h.receipt(h.send(req))
}

// end waits for the end of the stream.
func (h *testWorker) end() error {
	h.t.Helper()
	late := time.After(patience)
	for {
		select {
		case m := <-h.responses:
			h.keep(m)
		case err := <-h.failed:
			return err
		case <-late:
			h.t.Fatal("the stream did not end")
		}
	}
}

// completion ends a turn with an event and asks for the next one.
func completion(a *pawlv1.TurnAssignment, event string) *pawlv1.WorkRequest {
	l := a.GetLease()
	return &pawlv1.WorkRequest{
		Credits: &pawlv1.WorkCredits{Turns: 1},
		Item: &pawlv1.WorkRequest_CompleteTurn{CompleteTurn: &pawlv1.CompleteTurnRequest{
			RunId: l.GetRunId(), TurnSeq: l.GetTurnSeq(), Attempt: l.GetAttempt(), TurnToken: l.GetToken(), Event: event,
		}},
	}
}

func stepRequest(a *pawlv1.TurnAssignment, tool string, payloads ...string) *pawlv1.WorkRequest {
	l := a.GetLease()
	req := &pawlv1.RequestStepRequest{RunId: l.GetRunId(), TurnSeq: l.GetTurnSeq(), Attempt: l.GetAttempt(), TurnToken: l.GetToken()}
	for _, p := range payloads {
		req.Requests = append(req.Requests, &pawlv1.StepRequest{Tool: tool, PayloadJson: p})
	}
	return &pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_RequestStep{RequestStep: req}}
}

func stepAnswer(a *pawlv1.StepAssignment, result string) *pawlv1.WorkRequest {
	l := a.GetLease()
	return &pawlv1.WorkRequest{
		Credits: &pawlv1.WorkCredits{Steps: 1},
		Item: &pawlv1.WorkRequest_ResolveStep{ResolveStep: &pawlv1.ResolveStepRequest{
			RunId: l.GetRunId(), Step: l.GetStep(), Tool: l.GetTool(), Attempt: l.GetAttempt(), TurnToken: l.GetToken(),
			Answer: &pawlv1.ResolveStepRequest_ResultJson{ResultJson: result},
		}},
	}
}

// startWorkers starts a run whose turns are leased.
func (r *rig) startWorkers(ctx context.Context) *pawlv1.StartRunResponse {
	r.t.Helper()
	req := startRequest()
	req.Execution = pawlv1.Execution_EXECUTION_WORKERS
	started, err := r.runs.StartRun(ctx, req)
	if err != nil {
		r.t.Fatalf("StartRun: %v", err)
	}
	return started
}

// loop fires timers and expires leases until the test ends.
func (r *rig) loop() {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.engine.Run(ctx)
	}()
	r.t.Cleanup(func() { stop(); <-ended })
}
