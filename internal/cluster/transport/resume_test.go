package transport_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
)

// journal is the sequence of records that the backends of one store stream. Cursors begin at 1, and some
// records are bytes that readers share.
type journal struct {
	mu      sync.Mutex
	changed chan struct{}
	last    int
	// received are the requests for streams, in the order of their arrival.
	received []*pawlv1.StreamTransitionsRequest
}

func newJournal() *journal { return &journal{changed: make(chan struct{})} }

func (j *journal) write(n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last += n
	close(j.changed)
	j.changed = make(chan struct{})
}

func (j *journal) tail() (int, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last, j.changed
}

func (j *journal) requests() []*pawlv1.StreamTransitionsRequest {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.received
}

// backend returns a backend that streams the journal until the backend ends.
func (j *journal) backend() *fakeBackend {
	h := newHouse()
	h.stream = func(_ string, stream grpc.ServerStream) error {
		in := &pawlv1.StreamTransitionsRequest{}
		if err := stream.RecvMsg(in); err != nil {
			return err
		}
		j.mu.Lock()
		j.received = append(j.received, in)
		j.mu.Unlock()
		if err := stream.SendHeader(metadata.MD{}); err != nil {
			return err
		}
		return j.stream(in, h, stream)
	}
	return h
}

// cutBehind returns a backend whose first stream sends some items and then fails with a reason. Its later
// streams fail at once, because a router may come again before the store has moved.
func cutBehind(reason string, told ...any) *fakeBackend {
	h := newHouse()
	var before atomic.Bool
	h.stream = func(_ string, stream grpc.ServerStream) error {
		if before.Swap(true) {
			return refused(reason)
		}
		for _, item := range told {
			_ = stream.SendMsg(item)
		}
		return refused(reason)
	}
	return h
}

func (j *journal) stream(in *pawlv1.StreamTransitionsRequest, h *fakeBackend, to grpc.ServerStream) error {
	at := int(in.GetAfterSeq())
	if in.GetAfterCursor() != "" {
		at, _ = strconv.Atoi(in.GetAfterCursor())
	}
	if in.GetFromNow() {
		at, _ = j.tail()
		if err := to.SendMsg(beat(at)); err != nil {
			return err
		}
	}
	for {
		last, news := j.tail()
		for ; at < last; at++ {
			if err := to.SendMsg(record(at + 1)); err != nil {
				return err
			}
		}
		if !in.GetFollow() {
			return nil
		}
		select {
		case <-news:
		case <-h.ended:
			return refused("DRAINING")
		case <-to.Context().Done():
			return to.Context().Err()
		}
	}
}

// record returns a record as a message or as bytes.
func record(n int) any {
	m := &pawlv1.StreamTransitionsResponse{Item: &pawlv1.StreamTransitionsResponse_Record{
		Record: &pawlv1.Record{RunId: "r", Seq: uint64(n), PrevSeq: uint64(n - 1), Cursor: strconv.Itoa(n)},
	}}
	if n%2 == 0 {
		return m
	}
	raw, _ := proto.Marshal(m)
	return codec.Message(raw)
}

func beat(n int) proto.Message {
	return &pawlv1.StreamTransitionsResponse{Item: &pawlv1.StreamTransitionsResponse_Heartbeat{Heartbeat: &pawlv1.Heartbeat{Cursor: strconv.Itoa(n)}}}
}

// TestAStreamGoesOn: after every move of the store, a stream continues after its last record, without a
// gap or a repeat, at each node.
func TestAStreamGoesOn(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]*pawlv1.StreamTransitionsRequest{
		"of everything": {Follow: true}, "under a filter": {Follow: true, Filter: &pawlv1.RunFilter{State: "s"}, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_ENDED}},
		"of a run": {Follow: true, RunId: "r"}, "after a record": {Follow: true, RunId: "r", AfterSeq: 5}, "after a cursor": {Follow: true, AfterCursor: "5"},
		"from now": {Follow: true, FromNow: true}, "of a consumer": {Follow: true, Consumer: "c"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, j := newTown(), newJournal()
			nodes := []*member{c.node(t, "a"), c.node(t, "b"), c.node(t, "c")}
			j.write(10)
			nodes[0].ownPartitions(j.backend())
			var streams []grpc.ServerStreamingClient[pawlv1.StreamTransitionsResponse]
			for _, n := range nodes {
				stream := must(pawlv1.NewRunServiceClient(n.conn).StreamTransitions(testContext(t), in))(t)
				_ = must(stream.Header())(t)
				streams = append(streams, stream)
			}
			next := map[bool]uint64{false: 1, true: 11}[in.GetFromNow()]
			if in.GetAfterSeq() > 0 || in.GetAfterCursor() != "" {
				next = 6
			}
			all := func(last uint64) {
				for i, stream := range streams {
					reads(t, i, stream, next, last)
				}
				next = last + 1
			}
			if next < 10 {
				all(10)
			}
			nodes[0].leave()
			j.write(3)
			nodes[1].ownPartitions(j.backend())
			all(13)
			// The node is cut off, so its streams break.
			nodes[1].port.Stop()
			nodes[1].leave()
			j.write(3)
			nodes[2].ownPartitions(j.backend())
			all(16)
			for _, got := range j.requests() {
				checkSameStream(t, in, got)
			}
		})
	}
}

// reads reads the records from next to last.
func reads(t *testing.T, reader int, stream grpc.ServerStreamingClient[pawlv1.StreamTransitionsResponse], next, last uint64) {
	t.Helper()
	for next <= last {
		got, err := stream.Recv()
		if err != nil {
			t.Fatalf("reader %d, before %d: %v", reader, next, err)
		}
		if got.GetHeartbeat() != nil {
			continue
		}
		if got.GetRecord().GetSeq() != next {
			t.Fatalf("reader %d got %d instead of %d", reader, got.GetRecord().GetSeq(), next)
		}
		next++
	}
}

// checkSameStream checks that a request that continues a stream asks for the same records.
func checkSameStream(t *testing.T, want, got *pawlv1.StreamTransitionsRequest) {
	t.Helper()
	if got.GetAfterCursor() != want.GetAfterCursor() && (got.GetAfterSeq() != 0 || got.GetFromNow()) {
		t.Errorf("asked %v", got)
	}
	plain := func(in *pawlv1.StreamTransitionsRequest) *pawlv1.StreamTransitionsRequest {
		in = proto.CloneOf(in)
		in.AfterCursor, in.AfterSeq, in.FromNow = "", 0, false
		return in
	}
	if !proto.Equal(plain(want), plain(got)) {
		t.Errorf("asked %v in place of %v", got, want)
	}
}

// TestAStreamThatDoesNotFollowEnds: a stream that does not follow ends after the last record, also if its
// node left in the middle.
func TestAStreamThatDoesNotFollowEnds(t *testing.T) {
	t.Parallel()
	c, j := newTown(), newJournal()
	first, second, other := c.node(t, "a"), c.node(t, "b"), c.node(t, "c")
	j.write(4)
	first.ownPartitions(cutBehind("DRAINING", record(1), record(2)))
	stream := must(pawlv1.NewRunServiceClient(other.conn).StreamTransitions(testContext(t), &pawlv1.StreamTransitionsRequest{}))(t)
	reads(t, 0, stream, 1, 2)
	first.leave()
	second.ownPartitions(j.backend())
	reads(t, 0, stream, 3, 4)
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

// TestASlowReaderGoesOn: if a node does not wait for a slow reader, the reader's stream continues at the
// next owner.
func TestASlowReaderGoesOn(t *testing.T) {
	t.Parallel()
	c, j := newTown(), newJournal()
	first, second, other := c.node(t, "a"), c.node(t, "b"), c.node(t, "c")
	j.write(4)
	first.ownPartitions(cutBehind(apierror.OwnerLost, record(1)))
	stream := must(pawlv1.NewRunServiceClient(other.conn).StreamTransitions(testContext(t), &pawlv1.StreamTransitionsRequest{}))(t)
	reads(t, 0, stream, 1, 1)
	first.leave()
	second.ownPartitions(j.backend())
	reads(t, 0, stream, 2, 4)
	here := must(pawlv1.NewRunServiceClient(second.conn).StreamTransitions(testContext(t), &pawlv1.StreamTransitionsRequest{}))(t)
	reads(t, 0, here, 1, 4)
}

// TestAStreamHeldUpIsLetGo: a backend that ends has no calls left, although a reader takes no messages.
func TestAStreamHeldUpIsLetGo(t *testing.T) {
	t.Parallel()
	c := newTown()
	n := c.node(t, "a")
	home := newHouse()
	full := make(chan struct{})
	home.stream = func(_ string, stream grpc.ServerStream) error {
		go func() {
			big := unknown(&pawlv1.StreamTransitionsResponse{}, strings.Repeat("x", 100))
			for range 1 << 20 {
				if stream.SendMsg(big) != nil {
					return
				}
			}
		}()
		<-home.ended
		close(full)
		return refused(apierror.OwnerLost)
	}
	n.ownPartitions(home)
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	stream := must(pawlv1.NewRunServiceClient(n.conn).StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{Follow: true}))(t)
	_ = must(stream.Recv())(t)
	n.leave()
	<-full
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := stream.Recv(); err != nil {
				ended <- err
				return
			}
		}
	}()
	if err := <-ended; reasonOf(err) != apierror.OwnerLost {
		t.Errorf("ended with %v", err)
	}
}

// TestOutputGoesOn: a stream continues after the last piece of output that it sent.
func TestOutputGoesOn(t *testing.T) {
	t.Parallel()
	c, j := newTown(), newJournal()
	first, second, other := c.node(t, "a"), c.node(t, "b"), c.node(t, "c")
	j.write(3)
	piece := &pawlv1.StreamTransitionsResponse{Item: &pawlv1.StreamTransitionsResponse_Output{Output: &pawlv1.OutputChunk{TurnSeq: 3, Delivery: 2, Offset: 10, Text: "abc"}}}
	first.ownPartitions(cutBehind("DRAINING", record(3), piece))
	stream := must(pawlv1.NewRunServiceClient(other.conn).StreamTransitions(testContext(t), &pawlv1.StreamTransitionsRequest{Follow: true, Output: true, RunId: "r"}))(t)
	for range 2 {
		_ = must(stream.Recv())(t)
	}
	first.leave()
	second.ownPartitions(j.backend())
	eventually(t, "the stream at the next owner", func() bool { return len(j.requests()) == 1 })
	want := &pawlv1.StreamTransitionsRequest{Follow: true, Output: true, RunId: "r", AfterCursor: "3", OutputAfter: &pawlv1.OutputPosition{TurnSeq: 3, Delivery: 2, Offset: 13}}
	if got := j.requests()[0]; !proto.Equal(got, want) {
		t.Errorf("asked %v", got)
	}
}

// TestAReaderThatGoesIsNotFollowed: after a reader disconnects, no node has anything left of its stream.
func TestAReaderThatGoesIsNotFollowed(t *testing.T) {
	t.Parallel()
	c, j := newTown(), newJournal()
	owner, other := c.node(t, "a"), c.node(t, "b")
	owner.ownPartitions(j.backend())
	for _, n := range []*member{owner, other} {
		ctx, cancel := context.WithCancel(testContext(t))
		stream := must(pawlv1.NewRunServiceClient(n.conn).StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{Follow: true}))(t)
		_ = must(stream.Header())(t)
		cancel()
		eventually(t, "an empty house", func() bool { return owner.seat().InFlight() == 0 })
	}
}
