package router

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// room is a backend with the functions of a test.
type room struct {
	call   func(ctx context.Context) (any, error)
	stream func(stream grpc.ServerStream) error
}

func (r room) Call(ctx context.Context, _ string, _ any) (any, error) { return r.call(ctx) }
func (r room) Stream(_ string, stream grpc.ServerStream) error        { return r.stream(stream) }
func (room) ServeHTTP(http.ResponseWriter, *http.Request)             {}
func (room) End()                                                     {}
func (room) Failed() <-chan struct{}                                  { return nil }

// asker is the stream of a caller that sends one request and reads everything.
type asker struct {
	unread
	questions, read, greetings int
	// sendError is the error of each message to the caller.
	sendError error
}

func (a *asker) RecvMsg(m any) error {
	if a.questions++; a.questions > 1 {
		return io.EOF
	}
	if req, ok := m.(*pawlv1.ExportRunRequest); ok {
		req.RunId = "r"
	}
	return nil
}

func (a *asker) SendMsg(any) error {
	if a.sendError == nil {
		a.read++
	}
	return a.sendError
}

func (*asker) SetHeader(metadata.MD) error { return nil }

func (a *asker) SendHeader(metadata.MD) error { a.greetings++; return nil }

func stream(r *Router, method string, from grpc.ServerStream) error {
	return r.Stream(nil, from, &grpc.StreamServerInfo{FullMethod: method}, nil)
}

// in returns a router that has the backend home in the first partition.
func in(home Backend) (*Router, *Slots) {
	seats := NewSlots()
	seats.At(0).Attach(home)
	return New(Config{Slots: seats, Directory: emptyDirectory{}, OwnerTimeout: 50 * time.Millisecond}), seats
}

// TestWhatIsNotRouted: methods of other services are executed at this node, whether or not a node has the
// store.
func TestWhatIsNotRouted(t *testing.T) {
	t.Parallel()
	router := New(Config{Slots: NewSlots(), Directory: emptyDirectory{}, OwnerTimeout: 50 * time.Millisecond})
	here := errors.New("here")
	next := func(context.Context, any) (any, error) { return nil, here }
	if _, err := router.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/grpc.health.v1.Health/Check"}, next); !errors.Is(err, here) {
		t.Errorf("a probe got %v", err)
	}
	err := router.Stream(nil, unread{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: "/grpc.health.v1.Health/Watch"}, func(any, grpc.ServerStream) error { return here })
	if !errors.Is(err, here) {
		t.Errorf("a watch got %v", err)
	}
}

// TestOnlyWhatLastsEndsWithTheLease: a call that changes something has started, and is completed after the
// lease has ended. A wait ends with the lease.
func TestOnlyWhatLastsEndsWithTheLease(t *testing.T) {
	t.Parallel()
	for method, ends := range map[string]bool{pawlv1.RunService_EmitEvent_FullMethodName: false, pawlv1.RunService_WaitRun_FullMethodName: true} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				free := make(chan struct{})
				router, seats := in(room{call: func(ctx context.Context) (any, error) {
					select {
					case <-ctx.Done():
						return nil, ctx.Err()
					case <-free:
						return methods[method].NewResponse(), nil
					}
				}})
				seats.At(0).ExtendLease(time.Now().Add(time.Second))
				got := make(chan error, 1)
				go func() {
					_, err := router.Local(t.Context(), 0, method, methods[method].NewRequest())
					got <- err
				}()
				time.Sleep(2 * time.Second)
				close(free)
				if err := <-got; ends != (reasonOf(err) == apierror.OwnerLost) || !ends && err != nil {
					t.Errorf("it ended with %v", err)
				}
			})
		})
	}
}

// TestAStreamThatItsHouseEnds: the caller of a stream that the backend ends in the middle receives the
// reason. A draining backend has a successor, at which the caller can continue.
func TestAStreamThatItsHouseEnds(t *testing.T) {
	t.Parallel()
	for said, want := range map[error]string{draining(): reasonDraining, NotOwner(): apierror.OwnerLost} {
		from := &asker{unread: unread{ctx: t.Context()}}
		router, _ := in(room{stream: func(s grpc.ServerStream) error {
			if from.read > 0 {
				return nil // the stream was opened again
			}
			if err := s.SendMsg(&pawlv1.ExportRunResponse{}); err != nil {
				return err
			}
			return said
		}})
		if err := stream(router, pawlv1.RunService_ExportRun_FullMethodName, from); reasonOf(err) != want || from.read != 1 {
			t.Errorf("%v: it ended with %v behind %d messages", said, err, from.read)
		}
	}
}

// TestARefusalStays: a refusal remains the answer if the server drains in the meantime.
func TestARefusalStays(t *testing.T) {
	t.Parallel()
	for _, method := range []string{pawlv1.RunService_ExportRun_FullMethodName, pawlv1.WorkerService_Work_FullMethodName} {
		router, ctx := newSplitRouter(NewSlots())
		router.cfg.Served = func(_ context.Context, namespace string) error {
			router.Drain()
			return validate.NotServed(namespace, []string{"blue"})
		}
		if err := stream(router, method, &asker{unread: unread{ctx: ctx}}); reasonOf(err) != "NAMESPACE_NOT_FOUND" {
			t.Errorf("%s: it ended with %v", method, err)
		}
	}
}

// TestAReaderWhoIsGone: the router does not open the stream of a disconnected caller again, although the
// error looks like that of a connection between nodes.
func TestAReaderWhoIsGone(t *testing.T) {
	t.Parallel()
	opened := 0
	router, _ := in(room{stream: func(s grpc.ServerStream) error {
		opened++
		return s.SendMsg(&pawlv1.StreamTransitionsResponse{})
	}})
	gone := status.Error(codes.Unavailable, "transport is closing")
	err := stream(router, pawlv1.RunService_StreamTransitions_FullMethodName, &asker{unread: unread{ctx: t.Context()}, sendError: gone})
	if !errors.Is(err, gone) || opened != 1 {
		t.Errorf("opened %d times: %v", opened, err)
	}
}

// TestAnUnknownOutcomeIsToldAsItCame: the router passes on the store's error about an unknown outcome,
// because the store knows more about it.
func TestAnUnknownOutcomeIsToldAsItCame(t *testing.T) {
	t.Parallel()
	said := apierror.Refused(&machine.Error{Code: machine.CodeUnavailable, Reason: apierror.CommitUnknown, Message: "in its own words"}).Err()
	router, _ := in(room{call: func(context.Context) (any, error) { return nil, said }})
	_, err := router.Unary(t.Context(), &pawlv1.EmitEventRequest{}, &grpc.UnaryServerInfo{FullMethod: pawlv1.RunService_EmitEvent_FullMethodName}, nil)
	if err == nil || !strings.Contains(err.Error(), "in its own words") {
		t.Errorf("it is told as %v", err)
	}
}

// remoteDirectory is a directory in which one other node owns every partition.
type remoteDirectory struct{ emptyDirectory }

func (remoteDirectory) Owner(int32) (Peer, bool) { return Peer{ID: "far", Address: "far:1"}, true }

// wire is the connection to that node.
type wire struct {
	Peers
	grpc.ClientStream
	opened, closed int
	// sent is the result of SendMsg.
	sent error
	// waits: the node answers only after it has received all messages, or after its stream has ended.
	waits    bool
	received chan struct{}
	ctx      context.Context
	// refused is how many streams the node refuses because it does not have the partition.
	refused int
}

func (w *wire) Stream(ctx context.Context, _ Peer, _ int32, _ string) (grpc.ClientStream, error) {
	w.opened++
	w.ctx, w.received = ctx, make(chan struct{})
	return w, nil
}

func (w *wire) SendMsg(any) error { return w.sent }

func (w *wire) CloseSend() error {
	w.closed++
	close(w.received)
	return nil
}

// Header returns nothing, as before an answer.
func (*wire) Header() (metadata.MD, error) { return nil, nil }
func (*wire) Trailer() metadata.MD         { return nil }
func (w *wire) Context() context.Context   { return w.ctx }

func (w *wire) RecvMsg(any) error {
	if !w.waits {
		return io.EOF
	}
	select {
	case <-w.received:
		if w.opened <= w.refused {
			return NotOwner()
		}
		return io.EOF
	case <-w.ctx.Done():
		return status.FromContextError(w.ctx.Err()).Err()
	}
}

// TestARequestThatCannotBeSent: a request that cannot be sent to another node fails. It does not look like
// a request with an empty answer.
func TestARequestThatCannotBeSent(t *testing.T) {
	t.Parallel()
	large := status.Error(codes.ResourceExhausted, "message too large")
	for sent, want := range map[error]error{nil: nil, io.EOF: nil, large: large} {
		w := &wire{sent: sent}
		router := New(Config{Slots: NewSlots(), Directory: remoteDirectory{}, Peers: w, OwnerTimeout: 50 * time.Millisecond})
		err := stream(router, pawlv1.RunService_ExportRun_FullMethodName, &asker{unread: unread{ctx: t.Context()}})
		if !errors.Is(err, want) || (want == nil) != (err == nil) || w.opened != 1 || (w.closed == 1) != (want == nil) {
			t.Errorf("sending said %v: %v, opened %d times, closed %d times", sent, err, w.opened, w.closed)
		}
	}
}

// TestOneRequestIsOne: each backend receives the one request, and then the end of the requests.
func TestOneRequestIsOne(t *testing.T) {
	t.Parallel()
	opened := 0
	router, _ := in(room{stream: func(s grpc.ServerStream) error {
		opened++
		req := &pawlv1.ExportRunRequest{}
		first, second := s.RecvMsg(req), s.RecvMsg(&pawlv1.ExportRunRequest{})
		if first != nil || !errors.Is(second, io.EOF) || req.GetRunId() != "r" {
			t.Errorf("read %v, %v: %v", first, second, req)
		}
		if opened == 1 {
			return NotOwner()
		}
		return nil
	}})
	if err := stream(router, pawlv1.RunService_ExportRun_FullMethodName, &asker{unread: unread{ctx: t.Context()}}); err != nil || opened != 2 {
		t.Errorf("opened %d times: %v", opened, err)
	}
}

// TestATalkThatWasBegun: a stream from which a backend has read is not opened at another node, because the
// messages of the caller are lost.
func TestATalkThatWasBegun(t *testing.T) {
	t.Parallel()
	for said, want := range map[error]string{draining(): reasonDraining, NotOwner(): apierror.OwnerLost} {
		opened := 0
		router, _ := in(room{stream: func(s grpc.ServerStream) error {
			opened++
			if err := s.RecvMsg(&pawlv1.WorkRequest{}); err != nil {
				return err
			}
			return said
		}})
		err := stream(router, pawlv1.WorkerService_Work_FullMethodName, &asker{unread: unread{ctx: t.Context()}})
		if reasonOf(err) != want || opened != 1 {
			t.Errorf("%v: opened %d times, ended with %v", said, opened, err)
		}
	}
}

// brokenCaller is a caller that sends one message and whose connection then breaks.
type brokenCaller struct{ asker }

func (b *brokenCaller) RecvMsg(m any) error {
	if b.asker.RecvMsg(m) != nil {
		return errGone
	}
	return nil
}

// TestACallerWhoBreaks: if the connection of a caller breaks, the stream ends with that error, and not with
// the error of the stream to the other node.
func TestACallerWhoBreaks(t *testing.T) {
	t.Parallel()
	w := &wire{waits: true}
	router := New(Config{Slots: NewSlots(), Directory: remoteDirectory{}, Peers: w, OwnerTimeout: 50 * time.Millisecond})
	err := stream(router, pawlv1.WorkerService_Work_FullMethodName, &brokenCaller{asker{unread: unread{ctx: t.Context()}}})
	if !errors.Is(err, errGone) || w.opened != 1 || w.closed != 0 {
		t.Errorf("opened %d times, closed %d times: %v", w.opened, w.closed, err)
	}
}

// TestACallerWhoHasSaidAll: the router reads the messages of a caller only once. Each node to which the
// stream goes receives all of them, and their end.
func TestACallerWhoHasSaidAll(t *testing.T) {
	t.Parallel()
	w := &wire{waits: true, refused: 1}
	router := New(Config{Slots: NewSlots(), Directory: remoteDirectory{}, Peers: w, OwnerTimeout: 50 * time.Millisecond})
	from := &asker{unread: unread{ctx: t.Context()}}
	err := stream(router, pawlv1.WorkerService_Work_FullMethodName, from)
	if err != nil || w.opened != 2 || w.closed != 2 || from.questions != 2 {
		t.Errorf("opened %d times, closed %d times, asked %d times: %v", w.opened, w.closed, from.questions, err)
	}
}

// lane is a directory that knows no owner. It ends a call that would try for ever.
type lane struct {
	emptyDirectory
	requests int
	stop     context.CancelFunc
}

func (l *lane) Refresh() {
	if l.requests++; l.requests > 1000 {
		l.stop()
	}
}

// missCounter counts calls that found no owner.
type missCounter struct {
	uncounted
	n int
}

func (v *missCounter) NoOwner(string) { v.n++ }

// TestACallInVain: a call without an owner ends with the timeout of the node or of its caller. Its error
// says whether the call may have happened.
func TestACallInVain(t *testing.T) {
	t.Parallel()
	emit := pawlv1.RunService_EmitEvent_FullMethodName
	for name, row := range map[string]struct {
		method string
		req    any
		// first is the error of the first try, or nil if no node has the partition.
		first error
		time  time.Duration
		want  func(error) bool
		vain  int
	}{
		"nobody":           {emit, &pawlv1.EmitEventRequest{}, nil, time.Hour, hasReason("NO_OWNER"), 1},
		"no time":          {emit, &pawlv1.EmitEventRequest{}, nil, time.Second, func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }, 0},
		"it may have been": {emit, &pawlv1.EmitEventRequest{EventId: "e"}, machine.ErrIndeterminate, time.Hour, hasReason("COMMIT_UNKNOWN"), 1},
		"a read that may":  {pawlv1.RunService_GetRun_FullMethodName, &pawlv1.GetRunRequest{}, machine.ErrIndeterminate, time.Hour, hasReason("NO_OWNER"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), row.time)
				defer stop()
				seats, counts, tries := NewSlots(), &missCounter{}, 0
				seats.At(0).Attach(room{call: func(context.Context) (any, error) {
					if tries++; tries == 1 && row.first != nil {
						return nil, row.first
					}
					return nil, NotOwner()
				}})
				router := New(Config{Slots: seats, Directory: &lane{stop: stop}, Counts: counts, OwnerTimeout: 10 * time.Second})
				_, err := router.Unary(ctx, row.req, &grpc.UnaryServerInfo{FullMethod: row.method}, nil)
				if !row.want(err) || counts.n != row.vain {
					t.Errorf("behind %d tries it ended with %v; counted %d times", tries, err, counts.n)
				}
			})
		})
	}
}

func hasReason(reason string) func(error) bool {
	return func(err error) bool { return reasonOf(err) == reason }
}

// TestAWaitThatIsOver: a wait that returns a result is not repeated.
func TestAWaitThatIsOver(t *testing.T) {
	t.Parallel()
	calls := 0
	router, _ := in(room{call: func(context.Context) (any, error) {
		calls++
		return &pawlv1.WaitRunResponse{Run: &pawlv1.Run{Seq: uint64(calls)}}, nil
	}})
	got, err := router.Unary(t.Context(), &pawlv1.WaitRunRequest{}, &grpc.UnaryServerInfo{FullMethod: pawlv1.RunService_WaitRun_FullMethodName}, nil)
	if resp, ok := got.(*pawlv1.WaitRunResponse); !ok || err != nil || calls != 1 || resp.GetRun().GetSeq() != 1 {
		t.Errorf("called %d times: %v, %v", calls, got, err)
	}
}

// TestOnePartition: if there is one partition, the router passes on its answer for the whole store
// unchanged, because another node may know more fields than this one.
func TestOnePartition(t *testing.T) {
	t.Parallel()
	answer := codec.Message("bytes that this program does not read")
	router, _ := in(room{
		call: func(context.Context) (any, error) { return answer, nil },
		stream: func(s grpc.ServerStream) error {
			if err := s.SendHeader(metadata.MD{}); err != nil {
				return err
			}
			return s.SendMsg(answer)
		},
	})
	got, err := router.Unary(t.Context(), &pawlv1.GetStoreStatsRequest{}, &grpc.UnaryServerInfo{FullMethod: pawlv1.StoreService_GetStoreStats_FullMethodName}, nil)
	if same, ok := got.(codec.Message); !ok || err != nil || string(same) != string(answer) {
		t.Errorf("%v, %v", got, err)
	}
	from := &asker{unread: unread{ctx: t.Context()}}
	if err := stream(router, pawlv1.StoreService_CheckStore_FullMethodName, from); err != nil || from.read != 1 || from.greetings != 1 {
		t.Errorf("%d messages, %d headers: %v", from.read, from.greetings, err)
	}
}

// TestWhatIsNoCheck: a router that adds up several partitions refuses a message that is not a check.
func TestWhatIsNoCheck(t *testing.T) {
	t.Parallel()
	router, _ := in(room{stream: func(s grpc.ServerStream) error { return s.SendMsg(&pawlv1.ExportRunResponse{}) }})
	router.cfg.Partitions = []Partition{{Number: 0}, {Number: 1}}
	from := &asker{unread: unread{ctx: t.Context()}}
	if err := stream(router, pawlv1.StoreService_CheckStore_FullMethodName, from); !errors.Is(err, errNoCheck) || from.read != 0 {
		t.Errorf("%d messages: %v", from.read, err)
	}
}

// lines is a caller whose messages come from a channel of the test.
type lines struct {
	asker
	ids chan uint64
}

func (l *lines) RecvMsg(m any) error {
	id, more := <-l.ids
	if !more {
		return io.EOF
	}
	m.(*pawlv1.WorkRequest).Id = id
	return nil
}

// stuck is the connection to a node that does not have the partition and blocks the messages that are sent
// to it.
type stuck struct {
	wire
	onArrival     func()
	sending, free chan struct{}
	once          sync.Once
}

func (s *stuck) Stream(ctx context.Context, _ Peer, _ int32, _ string) (grpc.ClientStream, error) {
	s.ctx = ctx
	s.onArrival()
	return s, nil
}

func (s *stuck) SendMsg(any) error {
	s.once.Do(func() { close(s.sending) })
	<-s.free
	return nil
}

func (s *stuck) RecvMsg(any) error {
	<-s.sending
	return NotOwner()
}

// TestAStreamThatIsOverReadsNoMore: the part of the router that still sends to the former node takes no
// message away from the node that has the partition.
func TestAStreamThatIsOverReadsNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := &lines{asker{unread: unread{ctx: t.Context()}}, make(chan uint64, 4)}
		from.ids <- 1
		seats, w := NewSlots(), &stuck{sending: make(chan struct{}), free: make(chan struct{})}
		home := room{stream: func(s grpc.ServerStream) error {
			for want := range uint64(3) {
				got := &pawlv1.WorkRequest{}
				if err := s.RecvMsg(got); err != nil || got.GetId() != want+1 {
					t.Errorf("message %d: %d, %v", want+1, got.GetId(), err)
				}
				if want == 0 {
					close(w.free)
					synctest.Wait()
					from.ids <- 2
					synctest.Wait()
					from.ids <- 3
				}
			}
			return nil
		}}
		w.onArrival = func() { seats.At(0).Attach(home) }
		router := New(Config{Slots: seats, Directory: remoteDirectory{}, Peers: w})
		if err := stream(router, pawlv1.WorkerService_Work_FullMethodName, from); err != nil {
			t.Error(err)
		}
		close(from.ids)
	})
}
