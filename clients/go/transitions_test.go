package pawl_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// streams are the streams of a server, in order: the messages of each and the time until it breaks. After the last one no
// stream opens.
type streams struct {
	grpc.ClientConnInterface

	next []scriptedStream
}

type scriptedStream struct {
	grpc.ClientStream

	items []*pawlv1.StreamTransitionsResponse
	lasts time.Duration
}

func (s *streams) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	if len(s.next) == 0 {
		return nil, status.Error(codes.Unavailable, "down")
	}
	stream := s.next[0]
	s.next = s.next[1:]
	return &stream, nil
}

func (s *scriptedStream) SendMsg(any) error { return nil }
func (s *scriptedStream) CloseSend() error  { return nil }

func (s *scriptedStream) RecvMsg(m any) error {
	if len(s.items) == 0 {
		time.Sleep(s.lasts) // the time of the bubble
		return status.Error(codes.Unavailable, "broken")
	}
	answer := m.(*pawlv1.StreamTransitionsResponse)
	answer.Item, s.items = s.items[0].GetItem(), s.items[1:]
	return nil
}

// TestQuietRunOutlivesABrokenStream: a run has had no record for longer than RetryFor when its stream breaks. The time
// counts from the break, and the next stream delivers the rest.
func TestQuietRunOutlivesABrokenStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		heartbeat := &pawlv1.StreamTransitionsResponse{Item: &pawlv1.StreamTransitionsResponse_Heartbeat{Heartbeat: &pawlv1.Heartbeat{}}}
		record := &pawlv1.StreamTransitionsResponse{Item: &pawlv1.StreamTransitionsResponse_Record{Record: &pawlv1.Record{Seq: 1}}}
		conn := &streams{next: []scriptedStream{
			{items: []*pawlv1.StreamTransitionsResponse{heartbeat}, lasts: time.Hour}, {items: []*pawlv1.StreamTransitionsResponse{record}},
		}}
		client, err := pawl.NewClient(pawl.Options{Conn: conn, RetryFor: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		var got []uint64
		var last error
		begun := time.Now()
		for record, err := range client.Attach("R").Transitions(t.Context(), 0) {
			if last = err; err == nil {
				got = append(got, record.GetSeq())
			}
		}
		if len(got) != 1 || pawl.ErrorOf(last) == nil {
			t.Errorf("records %v, then %v", got, last)
		}
		if down := time.Since(begun) - time.Hour; down < 10*time.Second || down > 25*time.Second {
			t.Errorf("ended %v after the break", down)
		}
	})
}
