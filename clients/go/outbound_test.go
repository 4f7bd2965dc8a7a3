package pawl

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// heldStream is a stream whose Send blocks until the test receives the message from sent.
type heldStream struct {
	grpc.BidiStreamingClient[pawlv1.WorkRequest, pawlv1.WorkResponse]
	sent chan *pawlv1.WorkRequest
}

func (s *heldStream) Send(m *pawlv1.WorkRequest) error {
	s.sent <- m
	return nil
}

func ids(m *pawlv1.WorkRequest) []uint64 {
	all := []uint64{m.GetId()}
	for _, more := range m.GetMore() {
		all = append(all, more.GetId())
	}
	return all
}

// TestRequestsShareMessages: requests that wait are sent as one message, in order, up to the size that the
// server accepts for one message.
func TestRequestsShareMessages(t *testing.T) {
	t.Parallel()
	const limit = 4096
	o, stream := newOutbound(limit), &heldStream{sent: make(chan *pawlv1.WorkRequest)}
	ended := make(chan struct{})
	large := strings.Repeat("x", limit/2)
	for id := uint64(1); id <= 10; id++ {
		req := &pawlv1.WorkRequest{Id: id}
		if id > 8 {
			req.Item = &pawlv1.WorkRequest_Output{Output: &pawlv1.WorkerOutput{Text: large}}
		}
		if err := o.add(req); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		defer close(ended)
		o.run(stream)
	}()
	want := uint64(1)
	for _, n := range []int{9, 1} {
		got := ids(<-stream.sent)
		if len(got) != n {
			t.Fatalf("%d requests in a message, want %d", len(got), n)
		}
		for _, id := range got {
			if id != want {
				t.Fatalf("request %d, want %d", id, want)
			}
			want++
		}
	}
	o.end()
	<-ended
	if err := o.add(&pawlv1.WorkRequest{}); !errors.Is(err, errSessionOver) {
		t.Errorf("after the end: %v", err)
	}
}

// TestQueueIsBounded: add blocks while the queue is full, until the server reads or the session ends.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	const requests, most = 20, 4
	o := newOutbound(1)
	large := &pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_Output{Output: &pawlv1.WorkerOutput{Text: strings.Repeat("x", queuedBytes/most)}}}
	ended := make(chan error, 1)
	go func() {
		for {
			if err := o.add(large); err != nil {
				ended <- err
				return
			}
		}
	}()
	for range requests {
		if o.next() == nil {
			t.Fatal("nothing is sent")
		}
		o.mu.Lock()
		if n := len(o.queue); n > most {
			t.Errorf("%d requests wait", n)
		}
		o.mu.Unlock()
	}
	o.end()
	if err := <-ended; !errors.Is(err, errSessionOver) {
		t.Errorf("who waits is told %v", err)
	}
}
