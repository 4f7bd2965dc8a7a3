package grpcapi

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
)

// deafStream is the stream of a worker that asks and asks, and reads nothing until it
// starts reading.
type deafStream struct {
	grpc.ServerStream
	ctx      context.Context
	requests int64
	read     atomic.Int64
	reading  chan struct{}
	receipts atomic.Int64
}

func (s *deafStream) Context() context.Context { return s.ctx }

func (s *deafStream) Recv() (*pawlv1.WorkRequest, error) {
	n := s.read.Add(1)
	if n > s.requests {
		return nil, io.EOF
	}
	return &pawlv1.WorkRequest{Id: uint64(n), Item: &pawlv1.WorkRequest_Release{
		Release: &pawlv1.WorkRelease{Work: &pawlv1.WorkRelease_TurnToken{TurnToken: "nobodys"}},
	}}, nil
}

func (s *deafStream) Send(m *pawlv1.WorkResponse) error {
	<-s.reading
	if m.GetReceipt() != nil {
		s.receipts.Add(1)
	}
	return nil
}

// connectDeafWorker connects such a worker; the channel gets how its stream ended.
func (r *rig) connectDeafWorker(asks int64) (*deafStream, *workStream, <-chan error) {
	r.t.Helper()
	s := &workerService{runs: r.services.runs, edge: r.server.edge, maxMessage: DefaultMessageBytes}
	ctx := auth.WithCaller(testContext(r.t), auth.Anonymous)
	link, stream := newWorkStream(s), &deafStream{ctx: ctx, requests: asks, reading: make(chan struct{})}
	first := &pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_Register{Register: registration("deaf")}}
	if err := s.connect(ctx, first, link); err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.serve(ctx, stream, link, nil) }()
	return stream, link, ended
}

// eventually waits until something holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	late, look := time.After(patience), time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("never: %s", what)
		}
	}
}

// TestUnreadReceipts: a worker that reads no receipts is not read any more once 1 024
// of them wait, and gets every one when it listens.
func TestUnreadReceipts(t *testing.T) {
	t.Parallel()
	const asks = 20_000
	stream, link, ended := newRig(t).connectDeafWorker(asks)
	eventually(t, "its requests wait", func() bool { return len(link.inFlight) == requestsInFlight || stream.read.Load() > asks })
	if n := stream.read.Load(); n > requestsInFlight+1 {
		t.Fatalf("%d requests were read of a worker that reads nothing, want at most %d", n, requestsInFlight+1)
	}
	close(stream.reading)
	if err := <-ended; err != nil {
		t.Fatalf("the stream ended with %v", err)
	}
	if n := stream.receipts.Load(); n != asks {
		t.Fatalf("%d receipts came, want %d", n, asks)
	}
}

// TestLargeReceipts: receipts that are few and large hold a worker up, too.
func TestLargeReceipts(t *testing.T) {
	t.Parallel()
	link := newWorkStream(nil)
	large := &pawlv1.WorkReceipt{Id: 1, Answer: &pawlv1.WorkReceipt_Heartbeat{Heartbeat: &pawlv1.LeaseExtension{
		Lost: []string{string(make([]byte, receiptBytes))},
	}}}
	ctx, cancel := context.WithCancel(context.Background())
	if !link.admit(ctx) {
		t.Fatal("the first request was not admitted")
	}
	link.queueReceipt(large)
	admitted := make(chan bool, 1)
	go func() { admitted <- link.admit(ctx) }()
	if link.queuedReceiptBytes.Load() != int64(proto.Size(large)) {
		t.Fatalf("%d bytes are owed, want %d", link.queuedReceiptBytes.Load(), proto.Size(large))
	}
	link.receipted(large)
	if !<-admitted || link.queuedReceiptBytes.Load() != 0 {
		t.Fatal("room did not come back when the receipt was sent")
	}
	link.queueReceipt(large)
	cancel()
	if link.admit(ctx) {
		t.Fatal("a request was admitted although 4 MiB of receipts wait")
	}
}
