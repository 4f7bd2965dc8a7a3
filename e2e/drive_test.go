package e2e

import (
	"context"
	"os"
	"strconv"
	"sync"
	"testing"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-dev/pawl/e2e/play"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

const driveClients = 64

// TestKillDrive is TestKill with all scripts over one Drive stream, which breaks with
// the process: what had an answer is in the journal, what had none was sent again with
// the same ids on the next stream, and nothing happened twice.
func TestKillDrive(t *testing.T) {
	t.Parallel()
	kills := 4
	if n, err := strconv.Atoi(os.Getenv("PAWL_KILLS")); err == nil {
		kills = n
	}
	s := newSidecar(t, "--pack", "testdata/crash.pack.yaml", "--allow-tool", "*")
	s.start()
	over := &overDrive{RunServiceClient: s.runs()}
	drivers := underFire(t, s, kills, driveClients, func() pawlv1.RunServiceClient { return over })
	if over.shared == 0 {
		t.Error("no two commands shared a message")
	}
	calm := newSidecar(t, "--pack", "testdata/crash.pack.yaml", "--allow-tool", "*")
	calm.start()
	play.CompareAll(t, drivers, s.runs(), calm.runs())
	over.close()
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0\n%s", code, s.stderr.String())
	}
	s.check()
}

// overDrive sends over one Drive stream what drives a run, and all else as calls.
type overDrive struct {
	pawlv1.RunServiceClient
	mu     sync.Mutex
	link   *driveLink
	shared int
}

// driveLink is one stream, from its window to its break.
type driveLink struct {
	stream pawlv1.RunService_DriveClient
	cut    context.CancelFunc
	broken chan struct{}
	err    error

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan *pawlv1.DriveAnswer
	queue   []*pawlv1.DriveCommand
	wake    chan struct{}
}

// open is the stream that stands, or a new one.
func (o *overDrive) open() (*driveLink, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.link != nil {
		select {
		case <-o.link.broken:
		default:
			return o.link, nil
		}
	}
	ctx, cut := context.WithCancel(context.Background())
	stream, err := o.RunServiceClient.Drive(ctx)
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		cut()
		return nil, err
	}
	o.link = &driveLink{
		stream: stream, cut: cut, broken: make(chan struct{}), waiting: map[uint64]chan *pawlv1.DriveAnswer{}, wake: make(chan struct{}, 1),
	}
	go o.link.receive()
	go o.send(o.link)
	return o.link, nil
}

func (o *overDrive) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.link != nil {
		o.link.cut()
		<-o.link.broken
	}
}

func (l *driveLink) receive() {
	for {
		in, err := l.stream.Recv()
		if err != nil {
			l.err = err
			l.cut()
			close(l.broken)
			return
		}
		l.mu.Lock()
		for _, answer := range in.GetAnswers() {
			l.waiting[answer.GetId()] <- answer
			delete(l.waiting, answer.GetId())
		}
		l.mu.Unlock()
	}
}

// send puts what waits into one message.
func (o *overDrive) send(l *driveLink) {
	for {
		select {
		case <-l.wake:
		case <-l.broken:
			return
		}
		l.mu.Lock()
		commands := l.queue
		l.queue = nil
		l.mu.Unlock()
		if len(commands) > 1 {
			o.mu.Lock()
			o.shared++
			o.mu.Unlock()
		}
		// What an error means, receive is told.
		_ = l.stream.Send(&pawlv1.DriveRequest{Commands: commands})
	}
}

// do makes one command; without an answer nobody knows what became of it.
func (o *overDrive) do(ctx context.Context, command *pawlv1.DriveCommand) (*pawlv1.DriveAnswer, error) {
	l, err := o.open()
	if err != nil {
		return nil, err
	}
	answered := make(chan *pawlv1.DriveAnswer, 1)
	l.mu.Lock()
	l.last++
	command.Id = l.last
	l.waiting[command.Id] = answered
	l.queue = append(l.queue, command)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	select {
	case answer := <-answered:
		return answer, statusOf(answer.GetError())
	case <-l.broken:
		return nil, status.Error(codes.Unavailable, "the stream broke: "+l.err.Error())
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

func statusOf(st *spb.Status) error {
	if st == nil {
		return nil
	}
	return status.FromProto(st).Err()
}

func (o *overDrive) StartRun(ctx context.Context, in *pawlv1.StartRunRequest, _ ...grpc.CallOption) (*pawlv1.StartRunResponse, error) {
	got, err := o.do(ctx, &pawlv1.DriveCommand{Command: &pawlv1.DriveCommand_StartRun{StartRun: in}})
	return got.GetStartRun(), err
}

func (o *overDrive) GetTurn(ctx context.Context, in *pawlv1.GetTurnRequest, _ ...grpc.CallOption) (*pawlv1.GetTurnResponse, error) {
	got, err := o.do(ctx, &pawlv1.DriveCommand{Command: &pawlv1.DriveCommand_GetTurn{GetTurn: in}})
	return got.GetGetTurn(), err
}

func (o *overDrive) EmitEvent(ctx context.Context, in *pawlv1.EmitEventRequest, _ ...grpc.CallOption) (*pawlv1.EmitEventResponse, error) {
	got, err := o.do(ctx, &pawlv1.DriveCommand{Command: &pawlv1.DriveCommand_EmitEvent{EmitEvent: in}})
	return got.GetEmitEvent(), err
}

func (o *overDrive) CompleteTurn(ctx context.Context, in *pawlv1.CompleteTurnRequest, _ ...grpc.CallOption) (*pawlv1.CompleteTurnResponse, error) {
	got, err := o.do(ctx, &pawlv1.DriveCommand{Command: &pawlv1.DriveCommand_CompleteTurn{CompleteTurn: in}})
	return got.GetCompleteTurn(), err
}

func (o *overDrive) FailTurn(ctx context.Context, in *pawlv1.FailTurnRequest, _ ...grpc.CallOption) (*pawlv1.FailTurnResponse, error) {
	got, err := o.do(ctx, &pawlv1.DriveCommand{Command: &pawlv1.DriveCommand_FailTurn{FailTurn: in}})
	return got.GetFailTurn(), err
}

func (o *overDrive) RequestStep(ctx context.Context, in *pawlv1.RequestStepRequest, _ ...grpc.CallOption) (*pawlv1.RequestStepResponse, error) {
	got, err := o.do(ctx, &pawlv1.DriveCommand{Command: &pawlv1.DriveCommand_RequestStep{RequestStep: in}})
	return got.GetRequestStep(), err
}

func (o *overDrive) ResolveStep(ctx context.Context, in *pawlv1.ResolveStepRequest, _ ...grpc.CallOption) (*pawlv1.ResolveStepResponse, error) {
	got, err := o.do(ctx, &pawlv1.DriveCommand{Command: &pawlv1.DriveCommand_ResolveStep{ResolveStep: in}})
	return got.GetResolveStep(), err
}
