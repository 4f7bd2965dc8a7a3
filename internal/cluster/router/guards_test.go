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
	"github.com/pawl-dev/pawl/internal/grpcapi/encoded"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
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
	asked, read, greeted int
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

func (a *asker) SendHeader(metadata.MD) error { a.greeted++; return nil }

func stream(r *Router, method string, from grpc.ServerStream) error {
	return r.Stream(nil, from, &grpc.StreamServerInfo{FullMethod: method}, nil)
}

// in is a router with a home in the first partition.
func in(home Backend) (*Router, *Slots) {
	seats := NewSlots()
	seats.At(0).Attach(home)
	return New(Config{Slots: seats, Directory: nowhere{}, OwnerTimeout: 50 * time.Millisecond}), seats
}

// TestWhatIsNotRouted is made at this node, whether or not any has the store: methods of other services.
func TestWhatIsNotRouted(t *testing.T) {
	t.Parallel()
	router := New(Config{Slots: NewSlots(), Directory: nowhere{}, OwnerTimeout: 50 * time.Millisecond})
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

// TestAStreamThatItsHouseEnds in the middle hears why: one that drains has a successor to go on at.
func TestAStreamThatItsHouseEnds(t *testing.T) {
	t.Parallel()
	for said, want := range map[error]string{draining(): reasonDraining, NotOwner(): apierror.OwnerLost} {
		from := &asker{unread: unread{ctx: t.Context()}}
		router, _ := in(room{stream: func(s grpc.ServerStream) error {
			if from.read > 0 {
				return nil // it was opened again
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

// TestARefusalStays an answer where the server ends meanwhile.
func TestARefusalStays(t *testing.T) {
	t.Parallel()
	for _, method := range []string{pawlv1.RunService_ExportRun_FullMethodName, pawlv1.WorkerService_Work_FullMethodName} {
		router, ctx := parted(NewSlots())
		router.cfg.Served = func(_ context.Context, namespace string) error {
			router.Drain()
			return validate.NotServed(namespace, []string{"blue"})
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
	said := apierror.Refused(&machine.Error{Code: machine.CodeUnavailable, Reason: apierror.CommitUnknown, Message: "in its own words"}).Err()
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
	// waits: it answers only once it has heard all, or its stream ends.
	waits bool
	heard chan struct{}
	ctx   context.Context
	// refused is how often it says that it does not have the partition.
	refused int
}

func (w *wire) Stream(ctx context.Context, _ Peer, _ int32, _ string) (grpc.ClientStream, error) {
	w.opened++
	w.ctx, w.heard = ctx, make(chan struct{})
	return w, nil
}

func (w *wire) SendMsg(any) error { return w.sent }

func (w *wire) CloseSend() error {
	w.closed++
	close(w.heard)
	return nil
}

// Header is none before it answers.
func (*wire) Header() (metadata.MD, error) { return nil, nil }
func (*wire) Trailer() metadata.MD         { return nil }
func (w *wire) Context() context.Context   { return w.ctx }

func (w *wire) RecvMsg(any) error {
	if !w.waits {
		return io.EOF
	}
	select {
	case <-w.heard:
		if w.opened <= w.refused {
			return NotOwner()
		}
		return io.EOF
	case <-w.ctx.Done():
		return status.FromContextError(w.ctx.Err()).Err()
	}
}

// TestARequestThatCannotBeSent to another node is none that was answered with nothing.
func TestARequestThatCannotBeSent(t *testing.T) {
	t.Parallel()
	large := status.Error(codes.ResourceExhausted, "message too large")
	for sent, want := range map[error]error{nil: nil, io.EOF: nil, large: large} {
		w := &wire{sent: sent}
		router := New(Config{Slots: NewSlots(), Directory: far{}, Peers: w, OwnerTimeout: 50 * time.Millisecond})
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

// TestATalkThatWasBegun is begun at no other node: what its caller has said is gone.
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

// breaks is a caller who sends one message, and whose connection ends.
type breaks struct{ asker }

func (b *breaks) RecvMsg(m any) error {
	if b.asker.RecvMsg(m) != nil {
		return errGone
	}
	return nil
}

// TestACallerWhoBreaks hears that, and not what became of the stream to another node for it.
func TestACallerWhoBreaks(t *testing.T) {
	t.Parallel()
	w := &wire{waits: true}
	router := New(Config{Slots: NewSlots(), Directory: far{}, Peers: w, OwnerTimeout: 50 * time.Millisecond})
	err := stream(router, pawlv1.WorkerService_Work_FullMethodName, &breaks{asker{unread: unread{ctx: t.Context()}}})
	if !errors.Is(err, errGone) || w.opened != 1 || w.closed != 0 {
		t.Errorf("opened %d times, closed %d times: %v", w.opened, w.closed, err)
	}
}

// TestACallerWhoHasSaidAll is asked for no more: each node that the stream goes to hears all of it, and its end.
func TestACallerWhoHasSaidAll(t *testing.T) {
	t.Parallel()
	w := &wire{waits: true, refused: 1}
	router := New(Config{Slots: NewSlots(), Directory: far{}, Peers: w, OwnerTimeout: 50 * time.Millisecond})
	from := &asker{unread: unread{ctx: t.Context()}}
	err := stream(router, pawlv1.WorkerService_Work_FullMethodName, from)
	if err != nil || w.opened != 2 || w.closed != 2 || from.asked != 2 {
		t.Errorf("opened %d times, closed %d times, asked %d times: %v", w.opened, w.closed, from.asked, err)
	}
}

// lane is a directory that knows nobody, and ends a call that goes on for ever.
type lane struct {
	nowhere
	asked int
	stop  context.CancelFunc
}

func (l *lane) Refresh() {
	if l.asked++; l.asked > 1000 {
		l.stop()
	}
}

// vain counts calls that found nobody.
type vain struct {
	uncounted
	n int
}

func (v *vain) NoOwner(string) { v.n++ }

// TestACallInVain ends with the patience of the node, or with the time of its caller, and says what is known of it.
func TestACallInVain(t *testing.T) {
	t.Parallel()
	emit := pawlv1.RunService_EmitEvent_FullMethodName
	for name, row := range map[string]struct {
		method string
		req    any
		// first is what the first try says, nil that nobody has the partition.
		first error
		time  time.Duration
		want  func(error) bool
		vain  int
	}{
		"nobody":           {emit, &pawlv1.EmitEventRequest{}, nil, time.Hour, says("NO_OWNER"), 1},
		"no time":          {emit, &pawlv1.EmitEventRequest{}, nil, time.Second, func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }, 0},
		"it may have been": {emit, &pawlv1.EmitEventRequest{EventId: "e"}, machine.ErrIndeterminate, time.Hour, says("COMMIT_UNKNOWN"), 1},
		"a read that may":  {pawlv1.RunService_GetRun_FullMethodName, &pawlv1.GetRunRequest{}, machine.ErrIndeterminate, time.Hour, says("NO_OWNER"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), row.time)
				defer stop()
				seats, counts, tries := NewSlots(), &vain{}, 0
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

func says(reason string) func(error) bool {
	return func(err error) bool { return reasonOf(err) == reason }
}

// TestAWaitThatIsOver is made once.
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

// TestOnePartition answers for the whole store, as it says it: another node may know more fields than this one.
func TestOnePartition(t *testing.T) {
	t.Parallel()
	answer := encoded.Message("bytes that this program does not read")
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
	if same, ok := got.(encoded.Message); !ok || err != nil || string(same) != string(answer) {
		t.Errorf("%v, %v", got, err)
	}
	from := &asker{unread: unread{ctx: t.Context()}}
	if err := stream(router, pawlv1.StoreService_CheckStore_FullMethodName, from); err != nil || from.read != 1 || from.greeted != 1 {
		t.Errorf("%d messages, %d headers: %v", from.read, from.greeted, err)
	}
}

// TestWhatIsNoCheck is handed on by none that adds up several.
func TestWhatIsNoCheck(t *testing.T) {
	t.Parallel()
	router, _ := in(room{stream: func(s grpc.ServerStream) error { return s.SendMsg(&pawlv1.ExportRunResponse{}) }})
	router.cfg.Partitions = []Partition{{Number: 0}, {Number: 1}}
	from := &asker{unread: unread{ctx: t.Context()}}
	if err := stream(router, pawlv1.StoreService_CheckStore_FullMethodName, from); !errors.Is(err, errNoCheck) || from.read != 0 {
		t.Errorf("%d messages: %v", from.read, err)
	}
}

// lines is a caller who sends what a test gives it.
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

// stuck is the way to a node that does not have the partition, and holds up what is sent to it.
type stuck struct {
	wire
	came          func()
	sending, free chan struct{}
	once          sync.Once
}

func (s *stuck) Stream(ctx context.Context, _ Peer, _ int32, _ string) (grpc.ClientStream, error) {
	s.ctx = ctx
	s.came()
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

// TestAStreamThatIsOverReadsNoMore: who still sends to the node that did not have the partition takes no message from
// the one that has it.
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
		w.came = func() { seats.At(0).Attach(home) }
		router := New(Config{Slots: seats, Directory: far{}, Peers: w})
		if err := stream(router, pawlv1.WorkerService_Work_FullMethodName, from); err != nil {
			t.Error(err)
		}
		close(from.ids)
	})
}
