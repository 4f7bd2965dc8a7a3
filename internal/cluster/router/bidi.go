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

// keptBytes limits the messages of a stream that the router keeps until a node has answered, in bytes.
// The first message is not counted. A node that does not own the partition answers before it reads more
// than one window of the connection, and a window is smaller than this limit.
const keptBytes = 8 << 20

// bidiStream forwards a stream on which the caller also sends messages. The first message of the caller
// determines the partition. Only one node begins the stream. If a node refuses to begin it, the router
// sends the caller's messages again to the next owner.
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

// bidiStreamOnce tries the stream once, at the node that owns the partition according to this node's
// view.
func (r *Router) bidiStreamOnce(ctx context.Context, part int32, method string, stream grpc.ServerStream, said *requestBuffer) error {
	here, err := r.cfg.Slots.At(part).stream(ctx, method, func(ctx context.Context) grpc.ServerStream {
		return &replayStream{answering: answering{stream, said}, ctx: ctx}
	})
	if here {
		return err
	}
	return r.elsewhere(ctx, part, method, func(to Peer) error { return r.bidiStreamTo(ctx, to, part, method, stream, said) })
}

// bidiStreamTo forwards messages in both directions until the other node ends the stream. A goroutine
// reads the caller's messages. It ends with the stream.
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

// requestBuffer keeps the messages that a caller sends on a stream until a node has answered, so that
// they can be sent again from the first one. Safe for concurrent use.
type requestBuffer struct {
	from grpc.ServerStream
	m    *Method
	mu   sync.Mutex
	// kept contains the messages that were received so far. bytes is their size without the first
	// message. gone means that there are too many messages to send them again, or that this is no
	// longer needed. In this case kept contains only the message for the current reader.
	kept  []proto.Message
	bytes int
	gone  bool
	// over is the error that ended the caller's messages. io.EOF means that the caller has sent all
	// messages.
	over error
	// reading is closed when the receive that is in progress ends. It is nil if no receive is in
	// progress.
	reading chan struct{}
}

// first returns the first message, which determines the partition of the stream. A goroutine receives
// the message, because ctx may end before the message arrives. The goroutine ends with the stream.
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

// sendTo sends all messages of the caller to a node. It returns only errors of the caller: either the
// caller ended the stream, or it sent a message that cannot be read.
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

// next sets *m to the message with the number i. It is a kept message, or the next message that is
// received.
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

// await waits until the receive that is in progress ends. The caller holds mu.
func (s *requestBuffer) await(ctx context.Context) {
	reading := s.reading
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-reading:
	case <-ctx.Done():
	}
}

// read receives the next message into m. If the stream to a node ends in the meantime, the message is
// kept for the next attempt.
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

// stopReplay records that a node has begun the stream, so that its messages are not sent again.
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

// recvError returns the error that ended the caller's messages. It is nil if the caller still
// sends, or has sent all messages.
func (s *requestBuffer) recvError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.over, io.EOF) {
		return nil
	}
	return s.over
}

// answering is the stream that sends a node's answers to the caller. After the first answer the
// messages are not sent again.
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

// replayStream is the stream that a partition of this node serves. It first delivers the kept messages.
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
