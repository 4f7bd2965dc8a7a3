package router

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// blockingBackend is a backend whose calls block until the test releases them or their context ends.
type blockingBackend struct {
	entered, free chan struct{}
	ended         chan struct{}
}

func newHall() *blockingBackend {
	return &blockingBackend{entered: make(chan struct{}, 8), free: make(chan struct{}), ended: make(chan struct{})}
}

func (h *blockingBackend) Call(context.Context, string, any) (any, error) {
	h.entered <- struct{}{}
	<-h.free
	return &pawlv1.GetRunResponse{}, nil
}

func (h *blockingBackend) Stream(_ string, stream grpc.ServerStream) error {
	h.entered <- struct{}{}
	<-stream.Context().Done()
	return stream.Context().Err()
}

func (h *blockingBackend) ServeHTTP(http.ResponseWriter, *http.Request) {}
func (h *blockingBackend) End()                                         { close(h.ended) }
func (h *blockingBackend) Failed() <-chan struct{}                      { return nil }

// emptyDirectory is a directory that knows no node.
type emptyDirectory struct{}

func (emptyDirectory) Owner(int32) (Peer, bool) { return Peer{}, false }
func (emptyDirectory) Owners() ([]Peer, bool)   { return nil, false }
func (emptyDirectory) Stale() bool              { return false }
func (emptyDirectory) NonEmpty() []int32        { return []int32{0, 3} }
func (emptyDirectory) Changed() <-chan struct{} { return nil }
func (emptyDirectory) Refresh()                 {}

// unread is a stream whose messages no caller reads.
type unread struct {
	grpc.ServerStream
	ctx context.Context
}

func (s unread) Context() context.Context   { return s.ctx }
func (unread) SetTrailer(metadata.MD)       {}
func (unread) SendHeader(metadata.MD) error { return nil }

// TestTakeWaitsForWhatIsInside: Detach waits for the calls in the slot until its deadline, and no further
// call enters. Calls that remain after that do not count for the next backend.
func TestTakeWaitsForWhatIsInside(t *testing.T) {
	t.Parallel()
	seats := NewSlots()
	seat, router := seats.At(3), New(Config{Slots: seats, Directory: emptyDirectory{}})
	home := newHall()
	seat.Attach(home)
	method := pawlv1.RunService_GetRun_FullMethodName
	answered := make(chan error, 2)
	call := func() {
		_, err := router.Local(t.Context(), 3, method, &pawlv1.GetRunRequest{})
		answered <- err
	}
	go call()
	streamed := make(chan error, 1)
	go func() {
		streamed <- router.LocalStream(3, pawlv1.RunService_StreamTransitions_FullMethodName, unread{ctx: t.Context()})
	}()
	<-home.entered
	<-home.entered
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	got, err := seat.Detach(ctx)
	if got != Backend(home) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("took %v, %v", got, err)
	}
	<-home.ended
	if err := <-streamed; reasonOf(err) != apierror.OwnerLost || outcomeOf(err) != unknown {
		t.Errorf("the stream that stayed ended with %v", err)
	}
	if _, err := router.Local(t.Context(), 3, method, &pawlv1.GetRunRequest{}); reasonOf(err) != reasonNotOwner {
		t.Errorf("a call that came late got %v", err)
	}
	if got, err := seat.Detach(t.Context()); got != nil || err != nil {
		t.Errorf("took %v, %v once more", got, err)
	}
	next := newHall()
	seat.Attach(next)
	go call()
	<-next.entered
	close(home.free)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if n := seat.InFlight(); n != 1 {
		t.Errorf("%d calls are inside", n)
	}
	taken := make(chan error, 1)
	go func() {
		_, err := seat.Detach(t.Context())
		taken <- err
	}()
	<-next.ended
	close(next.free)
	if err := errors.Join(<-taken, <-answered); err != nil {
		t.Error(err)
	}
}

// closingBackend is a backend that is closed during its calls.
type closingBackend struct{ *blockingBackend }

func (r closingBackend) Call(context.Context, string, any) (any, error) {
	r.entered <- struct{}{}
	<-r.free
	return nil, errors.New("the store is closed")
}

// TestAHouseIsClosedUnderACall: if a backend is closed during a call, the error of the call is not an
// answer but an unknown outcome. So a call that only reads can be repeated elsewhere.
func TestAHouseIsClosedUnderACall(t *testing.T) {
	t.Parallel()
	seat, home := NewSlots().At(0), closingBackend{newHall()}
	seat.Attach(home)
	got := make(chan error, 1)
	go func() {
		_, _, err := seat.call(t.Context(), pawlv1.RunService_GetTurn_FullMethodName, &pawlv1.GetTurnRequest{})
		got <- err
	}()
	<-home.entered
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := seat.Detach(late); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(home.free)
	if err := <-got; outcomeOf(err) != unknown {
		t.Errorf("it is told %v", err)
	}
}

// TestAHouseThatComesIsHeldToTheLease: a backend is bound by the lease that its slot has already.
func TestAHouseThatComesIsHeldToTheLease(t *testing.T) {
	t.Parallel()
	seat := NewSlots().At(0)
	seat.ExtendLease(time.Now().Add(-time.Second))
	seat.Attach(newHall())
	if seat.Accepts() || seat.acquire() != nil {
		t.Error("calls enter behind the lease")
	}
	renewed := seat.Changed()
	seat.ExtendLease(time.Now().Add(time.Minute))
	<-renewed
	if !seat.Accepts() {
		t.Error("no call enters")
	}
}

// TestWhatIsToldOfAnError: no caller receives NOT_OWNER. No caller receives an error that denies a change
// which may have happened.
func TestWhatIsToldOfAnError(t *testing.T) {
	t.Parallel()
	refused := &machine.Error{Code: machine.CodeNotFound, Reason: "RUN_NOT_FOUND"}
	for name, one := range map[string]struct {
		err     error
		changes bool
		want    string
	}{
		"an answer": {refused, true, "RUN_NOT_FOUND"}, "not the owner": {NotOwner(), true, "NO_OWNER"}, "not sent": {&Unsent{errors.New("refused")}, true, "NO_OWNER"},
		"a store that failed": {&failed{refused}, true, "COMMIT_UNKNOWN"}, "one that failed, under what reads": {&failed{refused}, false, "OWNER_LOST"},
		"a commit that nobody knows of": {machine.ErrIndeterminate, true, "COMMIT_UNKNOWN"}, "a connection over HTTP": {&cut{errors.New("EOF")}, true, "COMMIT_UNKNOWN"},
		"a lease that ended": {&failed{broken()}, true, "COMMIT_UNKNOWN"}, "one that ended under what reads": {&failed{broken()}, false, "OWNER_LOST"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := reasonOf(one.err); reasonOf(toClientError(one.err, one.changes)) != one.want {
				t.Errorf("%s is told as %v", got, toClientError(one.err, one.changes))
			}
		})
	}
}
