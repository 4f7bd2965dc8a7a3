package grpcapi

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

const (
	// drainFor is how long workers may still answer after the server has begun to drain. It is shorter
	// than streamGrace. A worker keeps its unfinished work and reports it to the next server.
	drainFor = 750 * time.Millisecond
	// heartbeatEvery is the interval at which workers must send heartbeats. If a worker's lease of a turn or step is
	// shorter than three intervals, the worker must send them more often.
	heartbeatEvery = 15 * time.Second
)

// workerService implements pawl.v1.WorkerService. If RunService has an RPC for a request of a worker's
// stream, runService executes the request.
type workerService struct {
	pawlv1.UnimplementedWorkerServiceServer
	runs *runService
	edge *edge
	// maxMessage is the size of the largest request that the server accepts, in bytes.
	maxMessage int
	// drainFor is how long workers may still answer after the service has begun to end.
	drainFor time.Duration
}

type workServer = grpc.BidiStreamingServer[pawlv1.WorkRequest, pawlv1.WorkResponse]

// Work implements pawl.v1.WorkerService.
func (s *workerService) Work(stream workServer) error {
	ctx, over := auth.StreamContext(stream.Context(), auth.CallerOf(stream.Context()))
	defer over()
	first, err := stream.Recv()
	if err != nil {
		return recvError(err)
	}
	link := newWorkStream(s)
	more := first.GetMore()
	first.More = nil
	if err := s.connect(ctx, first, link); err != nil {
		return err
	}
	err = s.serve(ctx, stream, link, more)
	link.worker.Close(!s.isDraining())
	return err
}

// serve sends queued messages and handles requests until the stream ends.
func (s *workerService) serve(ctx context.Context, stream workServer, link *workStream, more []*pawlv1.WorkRequest) error {
	received := make(chan error, 1)
	go func() { received <- link.receive(ctx, stream, more) }()
	who, drain := auth.CallerOf(ctx), s.runs.draining
	var deadline <-chan time.Time
	for {
		// One loop in each stream waits for all events, because there may be thousands of idle workers.
		changed := s.runs.auth.Changed()
		if err := s.runs.auth.Recheck(who, pawlv1.WorkerService_Work_FullMethodName); err != nil {
			return err
		}
		if err := link.flush(stream); err != nil {
			return err
		}
		if deadline != nil && link.idle() {
			return draining()
		}
		select {
		case <-link.wake:
			gather()
		case <-changed:
		case err := <-link.ended:
			return err
		case err := <-received:
			return s.received(stream, link, err)
		case <-drain:
			drain, deadline = nil, time.After(s.drainFor)
			s.runs.work.Drain()
			link.push(&pawlv1.WorkResponse{Item: &pawlv1.WorkResponse_Drain{
				Drain: &pawlv1.ServerDrain{Deadline: timestamppb.New(time.Now().Add(s.drainFor))},
			}})
		case <-deadline:
			return draining()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// received ends a stream after its worker has sent the last request. It first waits until all pending requests are
// answered. If the stream broke, it returns the error at once.
func (s *workerService) received(stream workServer, link *workStream, err error) error {
	if !errors.Is(err, io.EOF) {
		return recvError(err)
	}
	link.requests.Wait()
	return link.flush(stream)
}

func (s *workerService) isDraining() bool {
	select {
	case <-s.runs.draining:
		return true
	default:
		return false
	}
}

// recvError returns the error for a stream that ended before its first request. It returns all errors other than io.EOF
// unchanged.
func recvError(err error) error {
	if errors.Is(err, io.EOF) {
		return registrationRequired()
	}
	return err
}

func registrationRequired() error {
	return &machine.Error{
		Code: machine.CodeInvalidArgument, Reason: "REGISTRATION_REQUIRED", Field: "register",
		Message: "the first request of a worker must be its registration",
	}
}

// connect registers the worker. It queues the answer before all other messages.
func (s *workerService) connect(ctx context.Context, first *pawlv1.WorkRequest, link *workStream) error {
	if err := checked(first); err != nil {
		return err
	}
	in := first.GetRegister()
	if in == nil {
		return registrationRequired()
	}
	req := convert.WorkerFromProto(callOf(ctx, first.GetNamespace()), in)
	req.Address = addressOf(ctx)
	req.Sink, link.batches, link.compactReceipts = link, in.GetBatches(), in.GetCompactReceipts()
	link.namespace = req.Namespace
	conn, err := s.runs.work.Connect(ctx, req)
	if err != nil {
		return err
	}
	if old := conn.Replaced; old != nil {
		s.edge.log.WarnContext(ctx, "worker replaced by another process with the same worker_id",
			"worker_id", req.ID, "principal", req.Principal.Name(), "namespace", cmp.Or(req.Namespace, runtime.DefaultNamespace),
			"old_address", old.Address, "old_client", old.Client, "old_instance", old.Instance,
			"new_address", req.Address, "new_client", req.Client, "new_instance", req.Instance)
	}
	link.worker = conn.Worker
	out := convert.RegisteredToProto(&conn)
	out.HeartbeatInterval, out.MaxMessageBytes = durationpb.New(heartbeatEvery), int64(s.maxMessage)
	link.pushFirst(&pawlv1.WorkResponse{Item: &pawlv1.WorkResponse_Registered{Registered: out}})
	credits := first.GetCredits()
	link.worker.Credit(int(credits.GetTurns()), int(credits.GetSteps()))
	return nil
}

// addressOf returns the address from which a call came, for display.
func addressOf(ctx context.Context) string {
	if from, ok := peer.FromContext(ctx); ok && from.Addr != nil {
		return from.Addr.String()
	}
	return ""
}

// turnResponse returns a turn as a response of GetTurn. Assignments to workers contain the same
// message.
func (s *runService) turnResponse(ctx context.Context, namespace string, view *runtime.TurnView) (*pawlv1.GetTurnResponse, error) {
	owner, err := s.views.PackOf(ctx, namespace, view.Run)
	if err != nil {
		return nil, err
	}
	variables, err := s.views.VariablesOf(ctx, namespace, view.Run)
	if err != nil {
		return nil, err
	}
	out := convert.TurnViewToProto(view)
	out.VariablesJson = string(variables)
	out.Remaining = convert.RemainingToProto(&view.Remaining)
	out.SettingsJson = s.settings.SettingsJSON(owner, view.TurnRef.Prompt, view.TurnRef.State)
	convert.DescribeSlots(owner, view.TurnRef.State, out.GetArtifactSlots())
	return out, nil
}
