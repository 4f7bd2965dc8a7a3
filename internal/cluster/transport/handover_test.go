package transport_test

import (
	"context"
	"errors"
	"io"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/cluster/router"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func reasonOf(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

func refused(reason string) error {
	return &machine.Error{Code: machine.CodeUnavailable, Reason: reason, Message: "for the test"}
}

// TestNoCallHearsOfAHandOver: while the store moves between three nodes, each call of a client of any node
// succeeds and is executed once.
func TestNoCallHearsOfAHandOver(t *testing.T) {
	t.Parallel()
	c := newTown()
	nodes := []*member{c.node(t, "a"), c.node(t, "b"), c.node(t, "c")}
	var executed atomic.Int64
	home := func() *fakeBackend {
		h := newHouse()
		h.unary = func(context.Context, string, any) (any, error) {
			executed.Add(1)
			return &pawlv1.EmitEventResponse{}, nil
		}
		return h
	}
	nodes[0].ownPartitions(home())
	ctx, stop := context.WithCancel(testContext(t))
	var requests atomic.Int64
	var callers sync.WaitGroup
	for _, n := range nodes {
		for range 4 {
			callers.Go(func() {
				for ctx.Err() == nil {
					// The call has no id, so a second execution would count as another one.
					if _, err := pawlv1.NewRunServiceClient(n.conn).EmitEvent(context.WithoutCancel(ctx), &pawlv1.EmitEventRequest{RunId: "r"}); err != nil {
						t.Error(err)
						return
					}
					requests.Add(1)
				}
			})
		}
	}
	for i := range 30 {
		before := requests.Load()
		eventually(t, "calls", func() bool { return requests.Load() >= before+50 || t.Failed() })
		nodes[i%3].leave()
		nodes[(i+1)%3].ownPartitions(home())
	}
	stop()
	callers.Wait()
	if executed.Load() != requests.Load() {
		t.Errorf("%d calls were made %d times", requests.Load(), executed.Load())
	}
}

// TestNobodyHasTheStore: a call waits for a node that has the store until the timeout of the node or its
// own deadline. Its error says that there was no owner.
func TestNobodyHasTheStore(t *testing.T) {
	t.Parallel()
	c := newTown()
	n := c.addMember(t, "a", 300*time.Millisecond)
	client := pawlv1.NewRunServiceClient(n.conn)
	_, err := client.EmitEvent(testContext(t), &pawlv1.EmitEventRequest{})
	if status.Code(err) != codes.Unavailable || reasonOf(err) != "NO_OWNER" {
		t.Errorf("got %v", err)
	}
	if !n.counts.hasLine("no owner pawl.v1.RunService/EmitEvent") || !n.counts.hasLine("retried pawl.v1.RunService/EmitEvent") || c.trustReads == 0 {
		t.Errorf("told %v, asked %d times", n.counts.lines[:3], c.trustReads)
	}
	ctx, cancel := context.WithTimeout(testContext(t), 50*time.Millisecond)
	defer cancel()
	if _, err := client.GetRun(ctx, &pawlv1.GetRunRequest{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v", err)
	}
	stream := must(client.StreamTransitions(testContext(t), &pawlv1.StreamTransitionsRequest{}))(t)
	if _, err := stream.Recv(); reasonOf(err) != "NO_OWNER" {
		t.Errorf("the stream got %v", err)
	}
	work := must(pawlv1.NewWorkerServiceClient(n.conn).Work(testContext(t)))(t)
	_ = work.Send(&pawlv1.WorkRequest{})
	if _, err := work.Recv(); reasonOf(err) != "NO_OWNER" {
		t.Errorf("the worker got %v", err)
	}
}

// TestTheDirectoryIsLate: the node in the directory has the store no longer. The call goes to the next
// owner, and its caller receives no error.
func TestTheDirectoryIsLate(t *testing.T) {
	t.Parallel()
	for _, op := range policy.Operations {
		m := router.MethodOf(op.Name)
		if m == nil || m.Rule == router.NodeInfo {
			continue
		}
		t.Run(op.Name, func(t *testing.T) {
			t.Parallel()
			c := newTown()
			gone, next, other := c.node(t, "a"), c.node(t, "b"), c.node(t, "c")
			c.elect(gone.self)
			home := newHouse()
			go func() {
				eventually(t, "a first try", func() bool { return other.counts.hasLine("forwarded " + op.Name[1:] + " NOT_STARTED") })
				next.ownPartitions(home)
			}()
			if m.Streams() {
				header, trailer := exchange(testContext(t), t, other, op.Name, m)
				checkBeside(t, next, header, trailer)
			} else if err := other.conn.Invoke(testContext(t), op.Name, m.NewRequest(), m.NewResponse()); err != nil {
				t.Fatal(err)
			}
			if got := home.receivedCalls(); len(got) != 1 || len(got[0].requests) != sends(m) {
				t.Errorf("came: %+v", got)
			}
		})
	}
}

// TestWhatIsMadeAgain: a node dies during a call. Depending on the rule of the method, the call is made
// again at the next owner, or its caller receives COMMIT_UNKNOWN.
func TestWhatIsMadeAgain(t *testing.T) {
	t.Parallel()
	for _, op := range policy.Operations {
		m := router.MethodOf(op.Name)
		if m == nil || m.Streams() || m.Rule == router.NodeInfo {
			continue
		}
		for _, named := range []bool{false, true} {
			id := idOf(m)
			if named && id == nil {
				continue
			}
			name := op.Name
			if named {
				name += " with " + string(id.Name())
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				req := m.NewRequest()
				if named {
					req.ProtoReflect().Set(id, protoreflect.ValueOfString("x"))
				}
				again := !op.Changes || m.Rule == router.Idempotent || m.Rule == router.IdempotentByKey && named
				calls, err := checkOwnerDeath(t, op.Name, req, newHouse())
				switch {
				case again && (err != nil || calls != 1):
					t.Errorf("made again %d times: %v", calls, err)
				case !again && (reasonOf(err) != "COMMIT_UNKNOWN" || status.Code(err) != codes.Unavailable || calls != 0):
					t.Errorf("made again %d times: %v", calls, err)
				}
			})
		}
	}
}

func idOf(m *router.Method) protoreflect.FieldDescriptor {
	for _, name := range []protoreflect.Name{"request_id", "event_id", "message_id", "write_id"} {
		if field := m.NewRequest().ProtoReflect().Descriptor().Fields().ByName(name); field != nil {
			return field
		}
	}
	return nil
}

// checkOwnerDeath makes a call through a node to an owner that stops during the call. It returns how often
// the call is made at the next owner, which has the backend home.
func checkOwnerDeath(t *testing.T, method string, req proto.Message, home *fakeBackend) (again int, err error) {
	t.Helper()
	c := newTown()
	dead, next, other := c.node(t, "a"), c.node(t, "b"), c.node(t, "c")
	under := newHouse()
	under.unary = func(ctx context.Context, _ string, _ any) (any, error) {
		dead.port.Stop()
		next.ownPartitions(home)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	dead.ownPartitions(under)
	err = other.conn.Invoke(testContext(t), method, req, router.MethodOf(method).NewResponse())
	return len(home.receivedCalls()), err
}

// TestARepeatThatCameLate: a node dies during the acknowledgement of a consumer. The acknowledgement may be
// done, and a later one may have followed. Then the owner refuses the repeat as too late, but the caller
// receives success.
func TestARepeatThatCameLate(t *testing.T) {
	t.Parallel()
	home := newHouse()
	home.unary = func(context.Context, string, any) (any, error) {
		return nil, &machine.Error{Code: machine.CodeOutOfRange, Reason: "CURSOR_BEHIND", Message: "for the test"}
	}
	method := pawlv1.DeliveryService_AckConsumer_FullMethodName
	if calls, err := checkOwnerDeath(t, method, &pawlv1.AckConsumerRequest{}, home); calls != 1 || err != nil {
		t.Errorf("made again %d times: %v", calls, err)
	}
	n := newTown().node(t, "a")
	n.ownPartitions(home)
	if _, err := pawlv1.NewDeliveryServiceClient(n.conn).AckConsumer(testContext(t), &pawlv1.AckConsumerRequest{}); reasonOf(err) != "CURSOR_BEHIND" {
		t.Errorf("one that is made once: %v", err)
	}
}

// TestTheStoreFailsUnderACall: a backend that has lost its store to another node does not know whether a
// call happened, just like a node that died.
func TestTheStoreFailsUnderACall(t *testing.T) {
	t.Parallel()
	for name, far := range map[string]bool{"here": false, "elsewhere": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTown()
			failing, next := c.node(t, "a"), c.node(t, "b")
			asked := failing
			if far {
				asked = c.node(t, "c")
			}
			home, under := newHouse(), newHouse()
			// The router may repeat the call here before the node has given the partition back.
			fails := sync.OnceFunc(func() {
				close(under.broken)
				go func() {
					failing.leave()
					next.ownPartitions(home)
				}()
			})
			under.unary = func(context.Context, string, any) (any, error) {
				fails()
				return nil, machine.ErrIndeterminate
			}
			failing.ownPartitions(under)
			_, err := pawlv1.NewRunServiceClient(asked.conn).EmitEvent(testContext(t), &pawlv1.EmitEventRequest{EventId: "once"})
			if err != nil || len(home.receivedCalls()) != 1 {
				t.Errorf("made %d times: %v", len(home.receivedCalls()), err)
			}
		})
	}
}

// TestAStreamIsOpenedAgain: if the rule of the method allows it, a stream that has not sent a message is
// opened again. Otherwise its reader receives an error.
func TestAStreamIsOpenedAgain(t *testing.T) {
	t.Parallel()
	for _, op := range policy.Operations {
		m := router.MethodOf(op.Name)
		if m == nil || !m.Streams() || m.Rule == router.ResumeStream {
			continue
		}
		for sent := range 2 {
			t.Run(op.Name+[]string{" before it told anything", " in the middle"}[sent], func(t *testing.T) {
				t.Parallel()
				c := newTown()
				dead, next, other := c.node(t, "a"), c.node(t, "b"), c.node(t, "c")
				home, under := newHouse(), newHouse()
				under.stream = func(_ string, stream grpc.ServerStream) error {
					if err := stream.RecvMsg(m.NewRequest()); err != nil {
						return err
					}
					for range sent {
						if err := stream.SendMsg(m.NewResponse()); err != nil {
							return err
						}
					}
					<-stream.Context().Done()
					return stream.Context().Err()
				}
				dead.ownPartitions(under)
				stream := must(other.conn.NewStream(testContext(t), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, op.Name))(t)
				if err := stream.SendMsg(m.NewRequest()); err != nil {
					t.Fatal(err)
				}
				if m.Rule != router.Bidi {
					_ = stream.CloseSend()
				}
				for range sent {
					if err := stream.RecvMsg(m.NewResponse()); err != nil {
						t.Fatal(err)
					}
				}
				dead.visited()
				dead.port.Stop()
				next.ownPartitions(home)
				err := stream.RecvMsg(m.NewResponse())
				if (m.Rule == router.RetryUntilFirst || m.Rule == router.FanOut) && sent == 0 {
					if err != nil || len(home.receivedCalls()) != 1 {
						t.Errorf("opened again %d times: %v", len(home.receivedCalls()), err)
					}
					return
				}
				want := "OWNER_LOST"
				if op.Changes && m.Rule == router.NoRetry && sent == 0 || op.Name == pawlv1.RunService_PutBlob_FullMethodName || op.Name == pawlv1.RunService_ImportRun_FullMethodName {
					want = "COMMIT_UNKNOWN"
				}
				if reasonOf(err) != want || len(home.receivedCalls()) != 0 {
					t.Errorf("opened again %d times: %v", len(home.receivedCalls()), err)
				}
			})
		}
	}
}

// visited waits until a call is inside the backend of a node.
func (m *member) visited() {
	m.t.Helper()
	eventually(m.t, "a call", func() bool { return m.seat().InFlight() > 0 })
}

// TestWaitRunGoesOn: a wait continues at the next owner for the rest of its timeout.
func TestWaitRunGoesOn(t *testing.T) {
	t.Parallel()
	for name, i := range map[string]int{"at the owner": 0, "at the next": 1, "at another": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTown()
			nodes := []*member{c.node(t, "a"), c.node(t, "b"), c.node(t, "c")}
			first, second := newHouse(), newHouse()
			first.unary = func(context.Context, string, any) (any, error) {
				<-first.ended
				return &pawlv1.WaitRunResponse{TimedOut: true}, nil
			}
			var rest time.Duration
			second.unary = func(_ context.Context, _ string, req any) (any, error) {
				rest = req.(*pawlv1.WaitRunRequest).GetTimeout().AsDuration()
				return &pawlv1.WaitRunResponse{Run: &pawlv1.Run{RunId: "r"}}, nil
			}
			nodes[0].ownPartitions(first)
			go func() {
				nodes[0].visited()
				nodes[0].leave()
				nodes[1].ownPartitions(second)
			}()
			got, err := pawlv1.NewRunServiceClient(nodes[i].conn).WaitRun(testContext(t), &pawlv1.WaitRunRequest{RunId: "r", Timeout: durationpb.New(time.Minute)})
			if err != nil || got.GetTimedOut() || got.GetRun().GetRunId() != "r" {
				t.Errorf("got %v, %v", got, err)
			}
			if rest <= 0 || rest >= time.Minute {
				t.Errorf("it waited %v more", rest)
			}
		})
	}
}

// TestDrainEndsWhatLasts: a node that drains ends its streams and waits, although another node serves them.
func TestDrainEndsWhatLasts(t *testing.T) {
	t.Parallel()
	c := newTown()
	owner, other := c.node(t, "a"), c.node(t, "b")
	home := newHouse()
	home.stream = func(_ string, stream grpc.ServerStream) error {
		_ = stream.SendHeader(metadata.MD{})
		<-stream.Context().Done()
		return stream.Context().Err()
	}
	home.unary = func(ctx context.Context, _ string, req any) (any, error) {
		if req.(*pawlv1.WaitRunRequest).GetTimeout().AsDuration() > 0 {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return &pawlv1.WaitRunResponse{TimedOut: true, Run: &pawlv1.Run{RunId: "now"}}, nil
	}
	owner.ownPartitions(home)
	client := pawlv1.NewRunServiceClient(other.conn)
	stream := must(client.StreamTransitions(testContext(t), &pawlv1.StreamTransitionsRequest{Follow: true}))(t)
	_, _ = stream.Header()
	work := must(pawlv1.NewWorkerServiceClient(other.conn).Work(testContext(t)))(t)
	_ = work.Send(&pawlv1.WorkRequest{})
	_, _ = work.Header()
	waited := make(chan *pawlv1.WaitRunResponse, 1)
	go func() {
		got, err := client.WaitRun(testContext(t), &pawlv1.WaitRunRequest{Timeout: durationpb.New(time.Minute)})
		if err != nil {
			t.Error(err)
		}
		waited <- got
	}()
	eventually(t, "three calls", func() bool { return owner.seat().InFlight() == 3 })
	other.router.Drain()
	if _, err := stream.Recv(); reasonOf(err) != "DRAINING" {
		t.Errorf("the stream ended with %v", err)
	}
	if _, err := work.Recv(); reasonOf(err) != "DRAINING" {
		t.Errorf("the worker's ended with %v", err)
	}
	if got := <-waited; got.GetRun().GetRunId() != "now" {
		t.Errorf("the wait got %v", got)
	}
	if _, err := must(client.ExportRun(testContext(t), &pawlv1.ExportRunRequest{}))(t).Recv(); reasonOf(err) != "DRAINING" {
		t.Errorf("a new stream got %v", err)
	}
}

// TestALeaseEnds: after a lease has ended, no call enters and streams end, until the lease is renewed.
func TestALeaseEnds(t *testing.T) {
	t.Parallel()
	c := newTown()
	n := c.node(t, "a")
	home := newHouse()
	var opened atomic.Int64
	home.stream = func(_ string, stream grpc.ServerStream) error {
		opened.Add(1)
		_ = stream.SendHeader(metadata.MD{})
		<-stream.Context().Done()
		return stream.Context().Err()
	}
	n.seat().ExtendLease(time.Now().Add(time.Minute))
	n.ownPartitions(home)
	client := pawlv1.NewRunServiceClient(n.conn)
	stream := must(client.StreamTransitions(testContext(t), &pawlv1.StreamTransitionsRequest{Follow: true}))(t)
	_, _ = stream.Header()
	blob := must(client.GetBlob(testContext(t), &pawlv1.GetBlobRequest{}))(t)
	_, _ = blob.Header()
	if !n.seat().Accepts() {
		t.Error("the seat is empty")
	}
	n.seat().ExtendLease(time.Now().Add(-time.Millisecond))
	eventually(t, "an empty house", func() bool { return n.seat().InFlight() == 0 })
	if n.seat().Accepts() {
		t.Error("calls are made behind the lease")
	}
	called := make(chan error, 1)
	go func() {
		_, err := client.GetRun(testContext(t), &pawlv1.GetRunRequest{})
		called <- err
	}()
	n.seat().ExtendLease(time.Now().Add(time.Minute))
	if err := <-called; err != nil {
		t.Error(err)
	}
	eventually(t, "streams that are open again", func() bool { return opened.Load() == 4 })
}

// TestATalkIsHandedOn: a stream is forwarded in both directions. Each side can be closed separately, and
// the stream ends when either side ends it.
func TestATalkIsHandedOn(t *testing.T) {
	t.Parallel()
	c := newTown()
	owner, other := c.node(t, "a"), c.node(t, "b")
	home := newHouse()
	received := make(chan error, 1)
	home.stream = func(_ string, stream grpc.ServerStream) error {
		for {
			m := &pawlv1.WorkRequest{}
			if err := stream.RecvMsg(m); err != nil {
				received <- err
				if errors.Is(err, io.EOF) {
					return stream.SendMsg(answerTo(99))
				}
				return err
			}
			if m.GetId() == 7 {
				return refused("SEVEN")
			}
			if err := stream.SendMsg(answerTo(m.GetId())); err != nil {
				return err
			}
		}
	}
	owner.ownPartitions(home)
	for name, n := range map[string]*member{"here": owner, "elsewhere": other} {
		t.Run(name, func(t *testing.T) {
			client := pawlv1.NewWorkerServiceClient(n.conn)
			open := func(ctx context.Context) grpc.BidiStreamingClient[pawlv1.WorkRequest, pawlv1.WorkResponse] {
				stream := must(client.Work(ctx))(t)
				for i := range uint64(3) {
					if err := stream.Send(&pawlv1.WorkRequest{Id: i}); err != nil {
						t.Fatal(err)
					}
					if got, err := stream.Recv(); err != nil || got.GetDrain().GetDeadline().GetSeconds() != int64(i) {
						t.Fatalf("got %v, %v", got, err)
					}
				}
				return stream
			}
			stream := open(testContext(t))
			_ = stream.CloseSend()
			if got, err := stream.Recv(); err != nil || got.GetDrain().GetDeadline().GetSeconds() != 99 || !errors.Is(<-received, io.EOF) {
				t.Errorf("behind its half: %v, %v", got, err)
			}
			if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
				t.Errorf("at the end: %v", err)
			}
			stream = open(testContext(t))
			_ = stream.Send(&pawlv1.WorkRequest{Id: 7})
			if _, err := stream.Recv(); reasonOf(err) != "SEVEN" {
				t.Errorf("refused: %v", err)
			}
			ctx, cancel := context.WithCancel(testContext(t))
			open(ctx)
			cancel()
			if err := <-received; status.Code(err) != codes.Canceled && !errors.Is(err, context.Canceled) {
				t.Errorf("given up: %v", err)
			}
		})
	}
}

// answerTo returns a response that carries a number.
func answerTo(id uint64) *pawlv1.WorkResponse {
	return &pawlv1.WorkResponse{Item: &pawlv1.WorkResponse_Drain{Drain: &pawlv1.ServerDrain{Deadline: &timestamppb.Timestamp{Seconds: int64(id)}}}}
}

// TestATalkerThatWaits: the first node refuses a stream that it has not begun. The next owner receives what
// the caller sent before, and then what it sends later.
func TestATalkerThatWaits(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]string{"at another node": "b", "here": "c"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTown()
			nodes := map[string]*member{"a": c.node(t, "a"), "b": c.node(t, "b"), "c": c.node(t, "c")}
			asked := nodes["c"]
			// This backend opens the stream, reads nothing, and then refuses it.
			waits := newHouse()
			waits.stream = func(_ string, stream grpc.ServerStream) error {
				<-waits.ended
				return refused("NOT_OWNER")
			}
			nodes["a"].ownPartitions(waits)
			stream := must(pawlv1.NewWorkerServiceClient(asked.conn).Work(testContext(t)))(t)
			for i := range uint64(3) {
				if err := stream.Send(&pawlv1.WorkRequest{Id: i}); err != nil {
					t.Fatal(err)
				}
			}
			nodes["a"].visited()
			nodes["a"].leave()
			home := newHouse()
			home.stream = func(_ string, stream grpc.ServerStream) error {
				for {
					m := &pawlv1.WorkRequest{}
					if err := stream.RecvMsg(m); err != nil {
						return err
					}
					if err := stream.SendMsg(answerTo(m.GetId())); err != nil {
						return err
					}
				}
			}
			nodes[next].ownPartitions(home)
			for i := range uint64(6) {
				if i >= 3 {
					if err := stream.Send(&pawlv1.WorkRequest{Id: i}); err != nil {
						t.Fatal(err)
					}
				}
				if got, err := stream.Recv(); err != nil || got.GetDrain().GetDeadline().GetSeconds() != int64(i) {
					t.Fatalf("message %d: %v, %v", i, got, err)
				}
			}
		})
	}
}

// TestNothingIsLeftBehind: a stream that is cancelled, closed or refused leaves no goroutine behind, apart
// from those of the connections.
func TestNothingIsLeftBehind(t *testing.T) {
	c := newTown()
	owner, other := c.node(t, "a"), c.node(t, "b")
	home := newHouse()
	home.stream = func(_ string, stream grpc.ServerStream) error {
		m := &pawlv1.WorkRequest{}
		for {
			if err := stream.RecvMsg(m); err != nil {
				return err
			}
			if m.GetId() > 0 {
				return refused("ENOUGH")
			}
			if err := stream.SendMsg(&pawlv1.WorkResponse{}); err != nil {
				return err
			}
		}
	}
	owner.ownPartitions(home)
	talk := func(how int) {
		ctx, cancel := context.WithCancel(testContext(t))
		defer cancel()
		stream := must(pawlv1.NewWorkerServiceClient(other.conn).Work(ctx))(t)
		_ = stream.Send(&pawlv1.WorkRequest{})
		_, _ = stream.Recv()
		switch how {
		case 0:
			cancel()
		case 1:
			_ = stream.CloseSend()
		case 2:
			_ = stream.Send(&pawlv1.WorkRequest{Id: 1})
		}
		_, _ = stream.Recv()
	}
	talk(1)
	eventually(t, "an empty house", func() bool { return owner.seat().InFlight() == 0 })
	before := goruntime.NumGoroutine()
	for i := range 300 {
		talk(i % 3)
	}
	eventually(t, "as many goroutines as before", func() bool { return goruntime.NumGoroutine() <= before+8 })
}
