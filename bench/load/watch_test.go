package load

import (
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// script is a stream that gives some items and then waits, or ends.
type script struct {
	items chan *pawlv1.StreamTransitionsResponse
}

func (s *script) Recv() (*pawlv1.StreamTransitionsResponse, error) {
	item, ok := <-s.items
	if !ok {
		return nil, io.ErrUnexpectedEOF
	}
	return item, nil
}

func record(run string, prev, seq uint64, at time.Time) *pawlv1.StreamTransitionsResponse {
	return &pawlv1.StreamTransitionsResponse{Item: &pawlv1.StreamTransitionsResponse_Record{
		Record: &pawlv1.Record{RunId: run, PrevSeq: prev, Seq: seq, At: timestamppb.New(at)},
	}}
}

func read(items ...*pawlv1.StreamTransitionsResponse) (*watchGroup, *script) {
	s := &script{items: make(chan *pawlv1.StreamTransitionsResponse, 16)}
	for _, item := range items {
		s.items <- item
	}
	wt := newWatcher(s)
	go wt.readAll()
	return &watchGroup{read: true, watchers: []*watcher{wt}}, s
}

func TestWatcherEndsWithTheRecordThatIsAskedFor(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(-time.Second)
	heartbeat := &pawlv1.StreamTransitionsResponse{Item: &pawlv1.StreamTransitionsResponse_Heartbeat{}}
	g, s := read(record("a", 0, 1, at), heartbeat, record("b", 0, 1, at), record("a", 1, 2, at.Add(time.Millisecond)))
	defer close(s.items)
	got, err := g.finish(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	if got.Records != 3 || got.LastAt-got.FirstAt != int64(time.Millisecond) || got.LagP99ms < 900 {
		t.Errorf("%+v", got)
	}
}

func TestWatcherFindsAGap(t *testing.T) {
	t.Parallel()
	g, s := read(record("a", 0, 1, time.Now()), record("a", 2, 3, time.Now()))
	defer close(s.items)
	if _, err := g.finish(t.Context(), 2); err == nil || !strings.Contains(err.Error(), "record 3 follows 2") {
		t.Errorf("got %v", err)
	}
}

func TestWatcherOfAStreamThatEndsEarly(t *testing.T) {
	t.Parallel()
	g, s := read(record("a", 0, 1, time.Now()))
	close(s.items)
	if _, err := g.finish(t.Context(), 2); err == nil || !strings.Contains(err.Error(), "after 1 records") {
		t.Errorf("got %v", err)
	}
}

// TestWatchersAreFullOnceNothingArrives: not before anything has arrived, and not while
// more does.
func TestWatchersAreFullOnceNothingArrives(t *testing.T) {
	t.Parallel()
	seen := []int64{7, 7, 7, 20, 90, 90, 91}
	looks := 0
	err := awaitFull(t.Context(), func() int64 { looks++; return seen[looks-1] }, func() {})
	if err != nil || looks != 6 {
		t.Fatalf("%d looks, error %v", looks, err)
	}
}
