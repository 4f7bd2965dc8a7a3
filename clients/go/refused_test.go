package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// full is a sidecar that gives out one step and refuses its answer a few times because it has no room.
type full struct {
	pawlv1.UnimplementedWorkerServiceServer
	refusals int
	answers  chan *pawlv1.ResolveStepRequest
}

// Work implements pawl.v1.WorkerService.
func (f *full) Work(stream grpc.BidiStreamingServer[pawlv1.WorkRequest, pawlv1.WorkResponse]) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	lease := &pawlv1.StepLease{RunId: "r", Step: 1, Tool: "book", Attempt: 1, Token: "t"}
	if err := errors.Join(
		stream.Send(&pawlv1.WorkResponse{Item: &pawlv1.WorkResponse_Registered{Registered: &pawlv1.WorkerRegistered{
			MaxMessageBytes: 1 << 20, HeartbeatInterval: durationpb.New(time.Minute), StepCapacity: 1,
		}}}),
		stream.Send(&pawlv1.WorkResponse{Item: &pawlv1.WorkResponse_Step{Step: &pawlv1.StepAssignment{Lease: lease, Timeout: durationpb.New(time.Minute)}}}),
	); err != nil {
		return err
	}
	for {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		var answer *pawlv1.ResolveStepRequest
		for _, one := range append([]*pawlv1.WorkRequest{req}, req.GetMore()...) {
			if one.GetResolveStep() != nil {
				req, answer = one, one.GetResolveStep()
			}
		}
		if answer == nil {
			continue
		}
		receipt := &pawlv1.WorkReceipt{Id: req.GetId()}
		if f.refusals--; f.refusals >= 0 {
			receipt.Error = noRoom()
		}
		f.answers <- answer
		if err := stream.Send(&pawlv1.WorkResponse{Item: &pawlv1.WorkResponse_Receipt{Receipt: receipt}}); err != nil {
			return err
		}
	}
}

func noRoom() *rpcstatus.Status {
	st, _ := status.New(codes.ResourceExhausted, "DISK_LOW").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)})
	return st.Proto()
}

// TestAnswerIsToldAgain: a worker sends the same answer again if the sidecar had no room for it and asks
// for a retry. If the worker reported an error or dropped the answer, the call would be made a second time.
func TestAnswerIsToldAgain(t *testing.T) {
	t.Parallel()
	f := &full{refusals: 3, answers: make(chan *pawlv1.ResolveStepRequest, 8)}
	server := grpc.NewServer()
	pawlv1.RegisterWorkerServiceServer(server, f)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	w, err := pawl.NewWorker(pawl.WorkerConfig{Conn: conn, ID: "w", Steps: 1, Tools: map[string]pawl.ToolFunc{
		"book": func(context.Context, *pawl.Step) (json.RawMessage, error) {
			return json.RawMessage(`{"seat":1}`), nil
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, halt := context.WithCancel(testContext(t))
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	for i := range 4 {
		select {
		case answer := <-f.answers:
			if answer.GetResultJson() != `{"seat":1}` {
				t.Errorf("answer %d: %v", i+1, answer)
			}
		case <-ctx.Done():
			t.Fatalf("answer %d did not come", i+1)
		}
	}
	halt()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(f.answers) > 0 {
		t.Error("the answer was taken, and told again")
	}
}

// TestResultThatCannotBeTold: a step whose result is refused for good counts as a call that may have
// happened. No attempt follows unless the pack allows it. A handler can report the same about its own call.
// Bytes that are not valid text do not end the worker's stream.
func TestResultThatCannotBeTold(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		result json.RawMessage
		failed error
		code   string
		calls  int64
	}{
		"is no UTF-8":             {result: json.RawMessage("\"\xff\""), code: "INVALID_UTF8", calls: 1},
		"is no JSON":              {result: json.RawMessage("nope"), code: "INVALID_JSON", calls: 1},
		"is too large":            {result: json.RawMessage(`"` + strings.Repeat("x", 5<<20) + `"`), code: "MESSAGE_TOO_LARGE", calls: 1},
		"may have happened":       {failed: &pawl.Failure{Code: "TIMEOUT", Message: "no answer", Unknown: true, Final: true}, code: "TIMEOUT", calls: 1},
		"failed, and can be told": {failed: &pawl.Failure{Code: "CLOSED"}, code: "CLOSED", calls: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, ctx := newSidecar(t), testContext(t)
			content := strings.Replace(pack, `"retry": {"max_attempts": 3}`, `"retry": {"max_attempts": 1}, "tools": {"add": {"attempts": 2}}`, 1)
			if _, err := s.packs.RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: []byte(strings.Replace(content, `"1.0.0"`, `"1.1.0"`, 1))}); err != nil {
				t.Fatal(err)
			}
			var calls atomic.Int64
			var unknown atomic.Bool
			stop := s.work(ctx, pawl.WorkerConfig{ID: "w", Prompts: map[string]pawl.TurnFunc{
				"counter": func(ctx context.Context, turn *pawl.Turn) (pawl.Completion, error) {
					_, err := turn.Step(ctx, "", "add", `{}`)
					failure, ok := errors.AsType[*pawl.Failure](err)
					unknown.Store(ok && failure.Unknown)
					return pawl.Completion{}, err
				},
			}, Tools: map[string]pawl.ToolFunc{
				"add": func(context.Context, *pawl.Step) (json.RawMessage, error) {
					calls.Add(1)
					return tt.result, tt.failed
				},
			}})
			defer stop()
			run := s.start(ctx)
			got := s.ended(ctx, run)
			if got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_FAILED || calls.Load() != tt.calls {
				t.Errorf("%d calls, want %d, and the run is %v", calls.Load(), tt.calls, got)
			}
			told, err := s.runs.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{RunId: run, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_STEP_RESOLVED}})
			if err != nil {
				t.Fatal(err)
			}
			record, err := told.Recv()
			if err != nil {
				t.Fatal(err)
			}
			step := record.GetRecord().GetStepResolved()
			if step.GetError().GetCode() != tt.code || step.GetUnknown() != (tt.calls == 1) {
				t.Errorf("the step is %v", step)
			}
			if unknown.Load() != step.GetUnknown() {
				t.Errorf("the handler got an unknown outcome: %v, the record has %v", unknown.Load(), step.GetUnknown())
			}
		})
	}
}
