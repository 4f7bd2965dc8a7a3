package route

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/fault"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/request"
)

// room is a home that does what a test says.
type room struct {
	call   func(ctx context.Context) (any, error)
	stream func(stream grpc.ServerStream) error
}

func (r room) Call(ctx context.Context, _ string, _ any) (any, error) { return r.call(ctx) }
func (r room) Stream(_ string, stream grpc.ServerStream) error        { return r.stream(stream) }
func (room) ServeHTTP(http.ResponseWriter, *http.Request)             {}
func (room) End()                                                     {}
func (room) Failed() <-chan struct{}                                  { return nil }

// asker is the stream of a caller who sends one request and reads everything.
type asker struct {
	unread
	asked, read int
	// gone is why nothing reaches him.
	gone error
}

func (a *asker) RecvMsg(m any) error {
	if a.asked++; a.asked > 1 {
		return io.EOF
	}
	if req, ok := m.(*pawlv1.ExportRunRequest); ok {
		req.RunId = "r"
	}
	return nil
}

func (a *asker) SendMsg(any) error {
	if a.gone == nil {
		a.read++
	}
	return a.gone
}

func (*asker) SetHeader(metadata.MD) error { return nil }

func stream(r *Router, method string, from grpc.ServerStream) error {
	return r.Stream(nil, from, &grpc.StreamServerInfo{FullMethod: method}, nil)
}

// in is a router with a home in the first partition.
func in(home Home) (*Router, *Seats) {
	seats := NewSeats()
	seats.At(0).Put(home)
	return New(Config{Seats: seats, Directory: nowhere{}, Patience: 50 * time.Millisecond}), seats
}

// TestWhatIsNotRouted is made at this node, whether or not any has the store: methods of other services, and the
// stream whose commands are routed one by one.
func TestWhatIsNotRouted(t *testing.T) {
	t.Parallel()
	router := New(Config{Seats: NewSeats(), Directory: nowhere{}, Patience: 50 * time.Millisecond})
	here := errors.New("here")
	next := func(context.Context, any) (any, error) { return nil, here }
	if _, err := router.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/grpc.health.v1.Health/Check"}, next); !errors.Is(err, here) {
		t.Errorf("a probe got %v", err)
	}
	for _, method := range []string{"/grpc.health.v1.Health/Watch", pawlv1.RunService_Drive_FullMethodName} {
		err := router.Stream(nil, unread{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: method}, func(any, grpc.ServerStream) error { return here })
		if !errors.Is(err, here) {
			t.Errorf("%s got %v", method, err)
		}
	}
}

// TestOnlyWhatLastsEndsWithTheLease: what changes something was begun, and is finished; a wait is not.
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
				seats.At(0).Extend(time.Now().Add(time.Second))
				got := make(chan error, 1)
				go func() {
					_, err := router.Local(t.Context(), 0, method, methods[method].NewRequest())
					got <- err
				}()
				time.Sleep(2 * time.Second)
				close(free)
				if err := <-got; ends != (reasonOf(err) == fault.OwnerLost) || !ends && err != nil {
					t.Errorf("it ended with %v", err)
				}
			})
		})
	}
}

// TestAStreamThatItsHouseEnds in the middle hears why: one that drains has a successor to go on at.
func TestAStreamThatItsHouseEnds(t *testing.T) {
	t.Parallel()
	for said, want := range map[error]string{draining(): reasonDraining, NotOwner(): fault.OwnerLost} {
		router, _ := in(room{stream: func(s grpc.ServerStream) error {
			if err := s.SendMsg(&pawlv1.ExportRunResponse{}); err != nil {
				return err
			}
			return said
		}})
		from := &asker{unread: unread{ctx: t.Context()}}
		if err := stream(router, pawlv1.RunService_ExportRun_FullMethodName, from); reasonOf(err) != want || from.read != 1 {
			t.Errorf("%v: it ended with %v behind %d messages", said, err, from.read)
		}
	}
}

// TestARefusalStays an answer where the server ends meanwhile.
func TestARefusalStays(t *testing.T) {
	t.Parallel()
	for _, method := range []string{pawlv1.RunService_ExportRun_FullMethodName, pawlv1.WorkerService_Work_FullMethodName} {
		router, ctx := parted(NewSeats())
		router.cfg.Served = func(_ context.Context, namespace string) error {
			router.Drain()
			return request.NotServed(namespace, []string{"blue"})
		}
		if err := stream(router, method, &asker{unread: unread{ctx: ctx}}); reasonOf(err) != "NAMESPACE_NOT_FOUND" {
			t.Errorf("%s: it ended with %v", method, err)
		}
	}
}

// TestAReaderWhoIsGone is read to by no other node, though his connection ends as one between nodes does.
func TestAReaderWhoIsGone(t *testing.T) {
	t.Parallel()
	opened := 0
	router, _ := in(room{stream: func(s grpc.ServerStream) error {
		opened++
		return s.SendMsg(&pawlv1.StreamTransitionsResponse{})
	}})
	gone := status.Error(codes.Unavailable, "transport is closing")
	err := stream(router, pawlv1.RunService_StreamTransitions_FullMethodName, &asker{unread: unread{ctx: t.Context()}, gone: gone})
	if !errors.Is(err, gone) || opened != 1 {
		t.Errorf("opened %d times: %v", opened, err)
	}
}

// TestAnUnknownOutcomeIsToldAsItCame: the store knows more of it than the router.
func TestAnUnknownOutcomeIsToldAsItCame(t *testing.T) {
	t.Parallel()
	said := fault.Refused(&machine.Refusal{Code: machine.CodeUnavailable, Reason: fault.CommitUnknown, Message: "in its own words"}).Err()
	router, _ := in(room{call: func(context.Context) (any, error) { return nil, said }})
	_, err := router.Unary(t.Context(), &pawlv1.EmitEventRequest{}, &grpc.UnaryServerInfo{FullMethod: pawlv1.RunService_EmitEvent_FullMethodName}, nil)
	if err == nil || !strings.Contains(err.Error(), "in its own words") {
		t.Errorf("it is told as %v", err)
	}
}

// far is a directory where one other node has every partition.
type far struct{ nowhere }

func (far) Owner(int32) (Peer, bool) { return Peer{ID: "far", Address: "far:1"}, true }

// wire is the way to that node.
type wire struct {
	Peers
	grpc.ClientStream
	opened, closed int
	// sent is what sending says.
	sent error
}

func (w *wire) Stream(context.Context, Peer, int32, string) (grpc.ClientStream, error) {
	w.opened++
	return w, nil
}

func (w *wire) SendMsg(any) error          { return w.sent }
func (w *wire) CloseSend() error           { w.closed++; return nil }
func (*wire) Header() (metadata.MD, error) { return metadata.MD{}, nil }
func (*wire) Trailer() metadata.MD         { return nil }
func (*wire) RecvMsg(any) error            { return io.EOF }
func (*wire) Context() context.Context     { return context.Background() }

// TestARequestThatCannotBeSent to another node is none that was answered with nothing.
func TestARequestThatCannotBeSent(t *testing.T) {
	t.Parallel()
	large := status.Error(codes.ResourceExhausted, "message too large")
	for sent, want := range map[error]error{nil: nil, io.EOF: nil, large: large} {
		w := &wire{sent: sent}
		router := New(Config{Seats: NewSeats(), Directory: far{}, Peers: w, Patience: 50 * time.Millisecond})
		err := stream(router, pawlv1.RunService_ExportRun_FullMethodName, &asker{unread: unread{ctx: t.Context()}})
		if !errors.Is(err, want) || (want == nil) != (err == nil) || w.opened != 1 || (w.closed == 1) != (want == nil) {
			t.Errorf("sending said %v: %v, opened %d times, closed %d times", sent, err, w.opened, w.closed)
		}
	}
}

// TestOneRequestIsOne: a house that reads until the end meets it behind the request, which each house is given.
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
