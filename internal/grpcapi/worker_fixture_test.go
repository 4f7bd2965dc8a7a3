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

// hand is a worker at the other end of a stream.
type hand struct {
	t      testing.TB
	stream grpc.BidiStreamingClient[pawlv1.WorkRequest, pawlv1.WorkResponse]
	hangUp context.CancelFunc
	ids    uint64
	// got are the responses; its end is told by failed.
	got        chan *pawlv1.WorkResponse
	failed     chan error
	turns      []*pawlv1.TurnAssignment
	steps      []*pawlv1.StepAssignment
	revoked    []*pawlv1.Revocation
	left       []*pawlv1.RunUnserved
	answers    []*pawlv1.StepAnswers
	receipts   []*pawlv1.WorkReceipt
	drains     []*pawlv1.ServerDrain
	registered *pawlv1.WorkerRegistered
}

func registration(id string) *pawlv1.WorkerRegistration {
	return &pawlv1.WorkerRegistration{WorkerId: id, Prompts: []string{"*"}, Tools: []string{"*"}, TurnCapacity: 4, StepCapacity: 4}
}

// open begins a stream and sends its first request.
func (r *rig) open(ctx context.Context, first *pawlv1.WorkRequest) *hand {
	r.t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	r.t.Cleanup(cancel)
	stream, err := pawlv1.NewWorkerServiceClient(r.conn).Work(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	h := &hand{t: r.t, stream: stream, hangUp: cancel, got: make(chan *pawlv1.WorkResponse, 1024), failed: make(chan error, 1)}
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				h.failed <- err
				return
			}
			for _, one := range append([]*pawlv1.WorkResponse{m}, m.GetMore()...) {
				h.got <- one
			}
		}
	}()
	// One that is refused at once may have ended before anything goes: receiving tells why.
	if err := stream.Send(first); err != nil && !errors.Is(err, io.EOF) {
		r.t.Fatal(err)
	}
	return h
}

// hand registers a worker of everything with one credit of each kind.
func (r *rig) hand(ctx context.Context, reg *pawlv1.WorkerRegistration) *hand {
	r.t.Helper()
	h := r.open(ctx, &pawlv1.WorkRequest{
		Credits: &pawlv1.WorkCredits{Turns: 1, Steps: 1}, Item: &pawlv1.WorkRequest_Register{Register: reg},
	})
	h.until("registered", func() bool { return h.registered != nil })
	return h
}

// patience bounds every wait for what must come; none of them takes near as long, on a
// machine that has time.
const patience = 60 * time.Second

// until takes responses until done.
func (h *hand) until(what string, done func() bool) {
	h.t.Helper()
	late := time.After(patience)
	for !done() {
		select {
		case m := <-h.got:
			h.keep(m)
		case err := <-h.failed:
			h.failed <- err
			h.t.Fatalf("the stream ended while waiting for %s: %v", what, err)
		case <-late:
			h.t.Fatalf("no %s came", what)
		}
	}
}

func (h *hand) keep(m *pawlv1.WorkResponse) {
	switch item := m.GetItem().(type) {
	case *pawlv1.WorkResponse_Registered:
		h.registered = item.Registered
	case *pawlv1.WorkResponse_Turn:
		h.turns = append(h.turns, item.Turn)
	case *pawlv1.WorkResponse_Step:
		h.steps = append(h.steps, item.Step)
	case *pawlv1.WorkResponse_RunUnserved:
		h.left = append(h.left, item.RunUnserved)
	case *pawlv1.WorkResponse_Revoked:
		h.revoked = append(h.revoked, item.Revoked)
	case *pawlv1.WorkResponse_StepAnswers:
		h.answers = append(h.answers, item.StepAnswers)
	case *pawlv1.WorkResponse_Receipt:
		h.receipts = append(h.receipts, item.Receipt)
	case *pawlv1.WorkResponse_Drain:
		h.drains = append(h.drains, item.Drain)
	}
}

func (h *hand) turn() *pawlv1.TurnAssignment {
	h.t.Helper()
	h.until("turn", func() bool { return len(h.turns) > 0 })
	next := h.turns[0]
	h.turns = h.turns[1:]
	return next
}

func (h *hand) step() *pawlv1.StepAssignment {
	h.t.Helper()
	h.until("step", func() bool { return len(h.steps) > 0 })
	next := h.steps[0]
	h.steps = h.steps[1:]
	return next
}

// send sends a request and returns its id.
func (h *hand) send(req *pawlv1.WorkRequest) uint64 {
	h.t.Helper()
	h.ids++
	req.Id = h.ids
	if err := h.stream.Send(req); err != nil {
		h.t.Fatalf("send: %v", err)
	}
	return req.Id
}

// receipt waits for the receipt of a request.
func (h *hand) receipt(id uint64) (*pawlv1.WorkReceipt, error) {
	h.t.Helper()
	late := time.After(patience)
	for {
		select {
		case m := <-h.got:
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

func (h *hand) ask(req *pawlv1.WorkRequest) (*pawlv1.WorkReceipt, error) {
	h.t.Helper()
	return h.receipt(h.send(req))
}

// end waits for the end of the stream.
func (h *hand) end() error {
	h.t.Helper()
	late := time.After(patience)
	for {
		select {
		case m := <-h.got:
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

// loop fires timers and lets leases run out until the test ends.
func (r *rig) loop() {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.engine.Run(ctx)
	}()
	r.t.Cleanup(func() { stop(); <-ended })
}
