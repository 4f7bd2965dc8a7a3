package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// script is a fake sidecar. Its n-th function handles its n-th stream.
type script struct {
	pawlv1.UnimplementedWorkerServiceServer
	streams chan func(*scripted)
	failed  chan string
}

// scripted is one stream of a script.
type scripted struct {
	stream   grpc.BidiStreamingServer[pawlv1.WorkRequest, pawlv1.WorkResponse]
	register *pawlv1.WorkerRegistration
	failed   chan string
}

// Work implements pawl.v1.WorkerService.
func (s *script) Work(stream grpc.BidiStreamingServer[pawlv1.WorkRequest, pawlv1.WorkResponse]) error {
	select {
	case part := <-s.streams:
		one := &scripted{stream: stream, failed: s.failed}
		one.until("registration", func(r *pawlv1.WorkRequest) bool {
			one.register = r.GetRegister()
			return one.register != nil
		})
		part(one)
		return nil
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

// until reads requests until found.
func (s *scripted) until(what string, found func(*pawlv1.WorkRequest) bool) {
	for {
		req, err := s.stream.Recv()
		if err != nil {
			s.failed <- "waiting for " + what + ": " + err.Error()
			return
		}
		if slices.ContainsFunc(append([]*pawlv1.WorkRequest{req}, req.GetMore()...), found) {
			return
		}
	}
}

func (s *scripted) registered(kept ...*pawlv1.TurnLease) {
	s.send(&pawlv1.WorkResponse{Item: &pawlv1.WorkResponse_Registered{Registered: &pawlv1.WorkerRegistered{
		MaxMessageBytes: 1 << 20, HeartbeatInterval: durationpb.New(20 * time.Millisecond), TurnCapacity: 2, StepCapacity: 2, KeptTurns: kept,
	}}})
}

func (s *scripted) send(m *pawlv1.WorkResponse) {
	if err := s.stream.Send(m); err != nil {
		s.failed <- err.Error()
	}
}

func (s *scripted) step(n uint32, delivery uint64) {
	s.send(&pawlv1.WorkResponse{Item: &pawlv1.WorkResponse_Step{Step: &pawlv1.StepAssignment{
		Lease:   &pawlv1.StepLease{RunId: "r", Step: n, Tool: "book", Attempt: 1, Token: string(rune('a' + n))},
		Timeout: durationpb.New(time.Minute), Delivery: delivery,
	}}})
}

func turnLease(attempt, delivery int32, token string) *pawlv1.TurnLease {
	return &pawlv1.TurnLease{RunId: "r", TurnSeq: 2, Attempt: attempt, Delivery: delivery, Token: token, Duration: durationpb.New(time.Minute)}
}

func (s *scripted) turn(lease *pawlv1.TurnLease) {
	s.send(&pawlv1.WorkResponse{Item: &pawlv1.WorkResponse_Turn{Turn: &pawlv1.TurnAssignment{Lease: lease, Turn: &pawlv1.GetTurnResponse{Prompt: "p"}}}})
}

// runWorker runs a worker against a fake sidecar with the given streams.
func runWorker(t *testing.T, cfg pawl.WorkerConfig, streams ...func(*scripted)) {
	t.Helper()
	s := &script{streams: make(chan func(*scripted), len(streams)), failed: make(chan string, 8)}
	done := make(chan struct{})
	for i, part := range streams {
		s.streams <- func(one *scripted) {
			part(one)
			if i == len(streams)-1 {
				close(done)
			}
		}
	}
	server := grpc.NewServer()
	pawlv1.RegisterWorkerServiceServer(server, s)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	cfg.Conn, err = grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	cfg.ID, cfg.Turns, cfg.Steps, cfg.Retry, cfg.Grace = "w", 2, 2, time.Millisecond, time.Millisecond
	w, err := pawl.NewWorker(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, halt := context.WithCancel(testContext(t))
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	select {
	case <-done:
	case <-ctx.Done():
		t.Error("the streams of the script did not come to their end")
	}
	halt()
	<-ended
	for len(s.failed) > 0 {
		t.Error(<-s.failed)
	}
}

// TestDeliveriesAreCounted: each registration has the highest number of a step received on any
// stream, including steps that the worker refused.
func TestDeliveriesAreCounted(t *testing.T) {
	t.Parallel()
	answered := func(n uint32) func(*pawlv1.WorkRequest) bool {
		return func(r *pawlv1.WorkRequest) bool { return r.GetResolveStep().GetStep() == n }
	}
	expectCount := func(s *scripted, want uint64) {
		if got := s.register.ReceivedSteps; got == nil || *got != want || s.register.GetInstance() == "" {
			t.Errorf("registered with %v, want received_steps %d and an instance", s.register, want)
		}
	}
	var instances []string
	tool := func(context.Context, *pawl.Step) (json.RawMessage, error) { return json.RawMessage(`1`), nil }
	runWorker(t, pawl.WorkerConfig{Tools: map[string]pawl.ToolFunc{"book": tool}},
		func(s *scripted) {
			expectCount(s, 0)
			instances = append(instances, s.register.GetInstance())
			s.registered()
			s.step(1, 3)
			s.step(2, 7)
			s.until("answer", answered(2))
		},
		func(s *scripted) {
			expectCount(s, 7)
			instances = append(instances, s.register.GetInstance())
			s.registered()
			s.step(3, 5) // a lower number does not reduce the count
			s.until("answer", answered(3))
		},
		func(s *scripted) {
			expectCount(s, 7)
			if instances = append(instances, s.register.GetInstance()); len(slices.Compact(instances)) != 1 {
				t.Errorf("one process has the instances %q", instances)
			}
		},
	)
}

// TestOnlyTheDeliveryThatIsKeptGoesOn: the next attempt of a turn may arrive before the receipt for the
// failure of the previous one. Each heartbeat names both. If the stream breaks then, the worker keeps
// only the lease of the new attempt. With both, it would report the old failure under the new lease.
func TestOnlyTheDeliveryThatIsKeptGoesOn(t *testing.T) {
	t.Parallel()
	handler := func(ctx context.Context, turn *pawl.Turn) (pawl.Completion, error) {
		if turn.Assignment.GetLease().GetAttempt() == 1 {
			return pawl.Completion{}, errors.New("it fails")
		}
		<-ctx.Done()
		return pawl.Completion{}, ctx.Err()
	}
	fails := func(r *pawlv1.WorkRequest) bool { return r.GetFailTurn() != nil }
	runWorker(t, pawl.WorkerConfig{Prompts: map[string]pawl.TurnFunc{"*": handler}},
		func(s *scripted) {
			s.registered()
			s.turn(turnLease(1, 1, "one"))
			s.until("failure", fails)
			s.turn(turnLease(2, 2, "two"))
			s.until("a heartbeat that names both", func(r *pawlv1.WorkRequest) bool {
				tokens := r.GetHeartbeat().GetTokens()
				return len(tokens) == 2 && slices.Contains(tokens, "one") && slices.Contains(tokens, "two")
			})
		},
		func(s *scripted) {
			if len(s.register.GetHeldTurns()) != 2 {
				t.Errorf("held %v", s.register.GetHeldTurns())
			}
			s.registered(turnLease(2, 2, "kept"))
			credits := 0 // one for the free place, one for the abandoned turn
			s.until("credits", func(r *pawlv1.WorkRequest) bool {
				if fails(r) {
					t.Errorf("a failure is told under the lease of another delivery: %v", r.GetFailTurn())
				}
				credits += int(r.GetCredits().GetTurns())
				return credits == 2 || fails(r)
			})
		},
	)
}
