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

// keptBytes limits how many bytes of a caller's messages the router keeps until a node has answered.
// The first message is not counted. The limit is large enough. A node that does not own the partition
// refuses the stream before it has read more than one flow control window (4 MiB).
const keptBytes = 8 << 20

// bidiStream forwards a stream on which the caller also sends messages. The caller's first message
// determines the partition. If a node refuses to begin the stream, the router sends the caller's
// messages again to the next owner. So only one node begins the stream.
func (r *Router) bidiStream(ctx context.Context, method string, stream grpc.ServerStream) error {
	m := methods[method]
	requests := &requestBuffer{from: stream, m: m}
	first, err := requests.first(ctx)
	if err != nil {
		return err
	}
	if err := r.checkNamespace(ctx, first); err != nil {
		return err
	}
	part := r.partOf(ctx, first)
	t := r.newRetrier(ctx, part, method)
	for t.next() {
		err = r.bidiStreamOnce(ctx, part, method, stream, requests)
		if fault := requests.recvError(); fault != nil && err != nil {
			return fault
		}
		if requests.replayStopped() && outcomeOf(err) == notStarted {
			return interrupted(err)
		}
		t.failed(err, false)
	}
	if err != nil {
		return t.toClientError(err, m.Changes && !m.serverStreams)
	}
	return nil
}

// bidiStreamOnce makes one attempt of the stream, at the node that owns the partition as far as this
// node knows.
func (r *Router) bidiStreamOnce(ctx context.Context, part int32, method string, stream grpc.ServerStream, said *requestBuffer) error {
	here, err := r.cfg.Slots.At(part).stream(ctx, method, func(ctx context.Context) grpc.ServerStream {
		return &replayStream{answerStream: answerStream{stream, said}, ctx: ctx}
	})
	if here {
		return err
	}
	return r.callOwner(ctx, part, method, func(to Peer) error { return r.bidiStreamTo(ctx, to, part, method, stream, said) })
}

// bidiStreamTo forwards messages in both directions until the other node ends the stream. A goroutine
// sends the caller's messages to the node and ends with the stream.
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
	return relay(from, &answerStream{stream, said})
}

// requestBuffer keeps the messages that a caller sends on a stream until a node has answered, so that
// they can be sent again from the first one. Safe for concurrent use.
type requestBuffer struct {
	from grpc.ServerStream
	m    *Method
	mu   sync.Mutex
	// messages contains the messages that were received so far. bytes is their size without the first
	// message. discarded means that the messages are not sent to another node again, because they are too
	// large or a node has begun the stream. The kept messages are then dropped.
	messages  []proto.Message
	bytes     int
	discarded bool
	// endError is the error after which the caller sends no more messages. io.EOF means that the caller has
	// sent all of them.
	endError error
	// reading is closed when the running RecvMsg on the caller's stream ends. It is nil if no RecvMsg
	// is running.
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

// sendTo sends all messages of the caller to a node. It returns errors of the caller's stream and of ctx. If
// a message cannot be sent to the node, it returns nil, because the receiving side returns that error.
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

// next sets *m to the caller's message with the number i, counted from 0. It is a kept message, or the
// next message that the caller sends.
func (s *requestBuffer) next(ctx context.Context, i int, m *proto.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case i < len(s.messages):
			*m = s.messages[i]
			return nil
		case s.reading != nil:
			s.await(ctx)
		case s.endError != nil:
			return s.endError
		default:
			return s.read(ctx, *m)
		}
	}
}

// await waits until the running RecvMsg on the caller's stream ends, or ctx ends. The caller holds the
// mutex s.mu.
func (s *requestBuffer) await(ctx context.Context) {
	reading := s.reading
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-reading:
	case <-ctx.Done():
	}
}

// read receives the caller's next message into m. If ctx, the attempt at a node, ends in the meantime,
// the message is kept for the next attempt.
func (s *requestBuffer) read(ctx context.Context, m proto.Message) error {
	if s.discarded {
		s.messages = nil
	}
	s.reading = make(chan struct{})
	s.mu.Unlock()
	err := s.from.RecvMsg(m)
	s.mu.Lock()
	close(s.reading)
	s.reading = nil
	if err != nil {
		s.endError = err
		return err
	}
	if !s.discarded || ctx.Err() != nil {
		s.keep(m)
	}
	return nil
}

func (s *requestBuffer) keep(m proto.Message) {
	if len(s.messages) > 0 {
		s.bytes += proto.Size(m)
	}
	s.messages = append(s.messages, m)
	s.discarded = s.discarded || s.bytes > keptBytes
}

// stopReplay records that a node has begun the stream, so that the caller's messages are not sent to
// another node again.
func (s *requestBuffer) stopReplay() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.discarded = true
}

func (s *requestBuffer) replayStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.discarded
}

// recvError returns the error that ended the caller's stream. It is nil if the caller may still send,
// or has sent all messages.
func (s *requestBuffer) recvError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.endError, io.EOF) {
		return nil
	}
	return s.endError
}

// answerStream is the stream on which a node's answers are sent to the caller. Its first answer records
// that the caller's messages are not sent to another node again.
type answerStream struct {
	grpc.ServerStream
	requests *requestBuffer
}

func (a *answerStream) SendHeader(md metadata.MD) error {
	a.requests.stopReplay()
	return a.ServerStream.SendHeader(md)
}

func (a *answerStream) SendMsg(m any) error {
	a.requests.stopReplay()
	return a.ServerStream.SendMsg(m)
}

// replayStream is the caller's stream in the form in which a partition of this node receives it. Its
// first messages are those that the router has already received.
type replayStream struct {
	answerStream
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
