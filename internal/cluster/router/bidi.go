package router

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// keptBytes limits the messages of a stream that are kept, besides the first one, until a node
// has answered. A node that does not own the partition answers before it reads more, so that
// one window of the connection is always enough.
const keptBytes = 8 << 20

// bidiStream is a stream on which its caller sends as well, and goes where its first message says. It is
// begun once; where it was not begun, what its caller has sent so far is sent again.
func (r *Router) bidiStream(ctx context.Context, method string, stream grpc.ServerStream) error {
	m := methods[method]
	said := &requestBuffer{from: stream, m: m}
	first, err := said.first(ctx)
	if err != nil {
		return err
	}
	if err := r.served(ctx, first); err != nil {
		return err
	}
	part := r.partOf(ctx, first)
	t := r.newRetrier(ctx, part, method)
	for t.next() {
		err = r.bidiStreamOnce(ctx, part, method, stream, said)
		if fault := said.recvError(); fault != nil && err != nil {
			return fault
		}
		if said.replayStopped() && outcomeOf(err) == notStarted {
			return interrupted(err)
		}
		t.failed(err, false)
	}
	if err != nil {
		return t.toClientError(err, m.Changes && !m.answers)
	}
	return nil
}

// bidiStreamOnce is a stream where its partition is believed to be.
func (r *Router) bidiStreamOnce(ctx context.Context, part int32, method string, stream grpc.ServerStream, said *requestBuffer) error {
	here, err := r.cfg.Slots.At(part).stream(ctx, method, func(ctx context.Context) grpc.ServerStream {
		return &replayStream{answering: answering{stream, said}, ctx: ctx}
	})
	if here {
		return err
	}
	return r.elsewhere(ctx, part, method, func(to Peer) error { return r.bidiStreamTo(ctx, to, part, method, stream, said) })
}

// bidiStreamTo hands on in both directions until the other node ends the stream. What its caller sends
// is read by a goroutine of its own, which ends with the stream.
func (r *Router) bidiStreamTo(ctx context.Context, to Peer, part int32, method string, stream grpc.ServerStream, said *requestBuffer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, err := r.cfg.Peers.Stream(ctx, to, part, method)
	if err != nil {
		return err
	}
	go func() {
		if said.sendTo(ctx, from) != nil {
			cancel()
		}
	}()
	return relay(from, &answering{stream, said})
}

// requestBuffer keeps the messages that a caller sends on a stream, so that they can be
// replayed from the first one until a node has answered. Safe for concurrent use.
type requestBuffer struct {
	from grpc.ServerStream
	m    *Method
	mu   sync.Mutex
	// kept are the messages so far, with their bytes without the first. gone: they are too many
	// for a replay, and kept only serves the present reader.
	kept  []proto.Message
	bytes int
	gone  bool
	// over is the error that ended the caller's messages.
	over error
	// reading is closed when the message arrives for which a reader waits; nil: no reader
	// waits.
	reading chan struct{}
}

// first returns the message that decides the stream's partition. A goroutine of its own
// receives it and ends with the stream, because ctx may end before.
func (s *requestBuffer) first(ctx context.Context) (proto.Message, error) {
	m, got := s.m.NewRequest(), make(chan error, 1)
	go func() { got <- s.next(ctx, 0, &m) }()
	select {
	case err := <-got:
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// sendTo sends all of it to a node. An error is the caller's fault: its own, or of what it sent.
func (s *requestBuffer) sendTo(ctx context.Context, to grpc.ClientStream) error {
	for i := 0; ; i++ {
		m := s.m.NewRequest()
		switch err := s.next(ctx, i, &m); {
		case errors.Is(err, io.EOF):
			return to.CloseSend()
		case err != nil:
			return err
		}
		if to.SendMsg(m) != nil {
			return nil // the receiving side returns the error
		}
	}
}

// next gives a message: one that is kept, or the next one, which is received into *m.
func (s *requestBuffer) next(ctx context.Context, i int, m *proto.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case i < len(s.kept):
			*m = s.kept[i]
			return nil
		case s.reading != nil:
			s.await(ctx)
		case s.over != nil:
			return s.over
		default:
			return s.read(ctx, *m)
		}
	}
}

// await waits for the reader.
func (s *requestBuffer) await(ctx context.Context) {
	reading := s.reading
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-reading:
	case <-ctx.Done():
	}
}

// read receives a message. The stream that it was for may be over by then: the next one gets it.
func (s *requestBuffer) read(ctx context.Context, m proto.Message) error {
	if s.gone {
		s.kept = nil
	}
	s.reading = make(chan struct{})
	s.mu.Unlock()
	err := s.from.RecvMsg(m)
	s.mu.Lock()
	close(s.reading)
	s.reading = nil
	if err != nil {
		s.over = err
		return err
	}
	if !s.gone || ctx.Err() != nil {
		s.keep(m)
	}
	return nil
}

func (s *requestBuffer) keep(m proto.Message) {
	if len(s.kept) > 0 {
		s.bytes += proto.Size(m)
	}
	s.kept = append(s.kept, m)
	s.gone = s.gone || s.bytes > keptBytes
}

// stopReplay is called when a node has begun the stream. The messages are not sent again.
func (s *requestBuffer) stopReplay() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
}

func (s *requestBuffer) replayStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

// recvError returns why the caller's messages ended, unless the caller has sent all of them.
func (s *requestBuffer) recvError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.over, io.EOF) {
		return nil
	}
	return s.over
}

// answering sends what a node answers to the caller.
type answering struct {
	grpc.ServerStream
	requests *requestBuffer
}

func (a *answering) SendHeader(md metadata.MD) error {
	a.requests.stopReplay()
	return a.ServerStream.SendHeader(md)
}

func (a *answering) SendMsg(m any) error {
	a.requests.stopReplay()
	return a.ServerStream.SendMsg(m)
}

// replayStream is the stream for a local partition: it delivers the kept messages first.
type replayStream struct {
	answering
	ctx context.Context //nolint:containedctx // it is the stream's
	i   int
}

func (t *replayStream) Context() context.Context { return t.ctx }

func (t *replayStream) RecvMsg(m any) error {
	t.requests.stopReplay()
	got := m.(proto.Message)
	if err := t.requests.next(t.ctx, t.i, &got); err != nil {
		return err
	}
	if t.i++; got != m {
		proto.Merge(m.(proto.Message), got)
	}
	return nil
}
