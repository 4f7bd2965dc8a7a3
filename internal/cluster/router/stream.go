package router

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Stream routes a streaming call. It implements grpcapi.Router.
func (r *Router) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	m := methods[info.FullMethod]
	if m == nil {
		return next(srv, stream)
	}
	ctx, leave := r.longCalls.enter(stream.Context())
	defer leave()
	if r.isDraining() {
		return draining()
	}
	var err error
	switch {
	case m.Rule == FanOut:
		err = r.check(ctx, stream)
	case m.clientStreams:
		err = r.bidiStream(ctx, info.FullMethod, stream)
	default:
		err = r.serverStream(ctx, info.FullMethod, stream)
	}
	if _, said := errors.AsType[*machine.Error](err); said {
		return err
	}
	return ended(ctx, err)
}

// serverStream routes a stream on which the caller sends a single request. The request determines the
// partition.
func (r *Router) serverStream(ctx context.Context, method string, stream grpc.ServerStream) error {
	req := methods[method].NewRequest()
	if err := stream.RecvMsg(req); err != nil {
		return err
	}
	if err := r.checkNamespace(ctx, req); err != nil {
		return err
	}
	return r.serverStreamAt(ctx, r.partOf(ctx, req), method, req, stream)
}

// serverStreamAt makes a streaming call with a single request at a partition, and repeats it if the
// rule of the method allows this.
func (r *Router) serverStreamAt(ctx context.Context, part int32, method string, req proto.Message, stream grpc.ServerStream) error {
	m := methods[method]
	out, err := &outputStream{to: stream}, error(nil)
	t := r.newRetrier(ctx, part, method)
	for t.next() {
		before := out.count()
		err = r.serverStreamOnce(ctx, part, method, m.resumed(req, out), out)
		if out.count() > before {
			t.resetTimeout()
		}
		if out.broken() {
			// A message could not be sent to the caller, because the caller has disconnected. Another
			// attempt cannot help.
			return err
		}
		if m.Rule != ResumeStream && out.count() > 0 && outcomeOf(err) != final {
			// The caller has already received messages, and a repeated call would send them again.
			return interrupted(err)
		}
		if m.Rule == NoRetry {
			err = lostIfDraining(err)
		}
		t.failed(err, m.Rule != NoRetry)
	}
	if err == nil {
		return nil
	}
	if m.Rule == NoRetry && out.count() == 0 && t.cancelledByDrain(err) {
		return newCommitUnknown()
	}
	return t.toClientError(err, m.Changes)
}

// serverStreamOnce makes one attempt of a stream, at the node that owns the partition as far as this
// node knows.
func (r *Router) serverStreamOnce(ctx context.Context, part int32, method string, req proto.Message, out *outputStream) error {
	here, err := r.cfg.Slots.At(part).stream(ctx, method, func(ctx context.Context) grpc.ServerStream { return &inlet{outputStream: out, ctx: ctx, req: req} })
	if here {
		return err
	}
	return r.callOwner(ctx, part, method, func(to Peer) error { return r.serverStreamFrom(ctx, to, part, method, req, out) })
}

// serverStreamFrom makes one attempt of a streaming call at another node. It sends the node's messages
// to the caller.
func (r *Router) serverStreamFrom(ctx context.Context, to Peer, part int32, method string, req proto.Message, out *outputStream) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, err := r.cfg.Peers.Stream(ctx, to, part, method)
	if err != nil {
		return err
	}
	// io.EOF means that the other node has ended the stream; RecvMsg returns its error.
	if err := from.SendMsg(req); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := from.CloseSend(); err != nil {
		return err
	}
	return relay(from, out)
}

// relay sends the header, the messages and the trailer of another node's stream to out, the stream of
// the caller.
func relay(from grpc.ClientStream, out streamSender) error {
	md, err := from.Header()
	if err == nil && md != nil {
		err = out.SendHeader(md)
	}
	for err == nil {
		var m codec.Message
		if err = from.RecvMsg(&m); err == nil {
			err = out.SendMsg(m)
		}
	}
	out.SetTrailer(from.Trailer())
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// streamSender is the sending half of a stream.
type streamSender interface {
	SendHeader(md metadata.MD) error
	SendMsg(m any) error
	SetTrailer(md metadata.MD)
}

// outputStream is the stream on which answers are sent to the caller. Several attempts of a call write to it,
// one after the other. It remembers the position after the last message. Safe for concurrent use.
type outputStream struct {
	to grpc.ServerStream
	mu sync.Mutex
	// headerSent reports whether the header was sent to the caller. sent is the number of sent
	// messages. sendError is the error of the caller's stream, after which no more messages can be sent.
	headerSent bool
	sent       int
	sendError  error
	streamPosition
}

func (o *outputStream) SendHeader(md metadata.MD) error {
	if !o.claimHeader() {
		return nil
	}
	return o.keep(o.to.SendHeader(md))
}

// keep remembers an error of sending to the caller, after which no more messages can be sent.
func (o *outputStream) keep(err error) error {
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.sendError = err
	}
	return err
}

// claimHeader records that the header is sent to the caller. It returns false if the header was already
// sent.
func (o *outputStream) claimHeader() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.headerSent
	o.headerSent = true
	return !was
}

// SendMsg sends a message to the caller and advances the position of the stream. Only one goroutine at
// a time may call it. While a slow caller blocks it, other goroutines can read the position.
func (o *outputStream) SendMsg(m any) error {
	if err := o.keep(o.to.SendMsg(m)); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.headerSent = true
	o.sent++
	o.advance(m)
	return nil
}

func (o *outputStream) SetTrailer(md metadata.MD) { o.to.SetTrailer(md) }

func (o *outputStream) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sent
}

func (o *outputStream) broken() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sendError != nil
}

// inlet is the caller's stream in the form in which a partition of this node receives it. It delivers
// the single request, and sends the responses to the caller through the outputStream.
type inlet struct {
	*outputStream
	ctx  context.Context //nolint:containedctx // it is the stream's
	req  proto.Message
	read bool
}

func (i *inlet) Context() context.Context { return i.ctx }

func (i *inlet) SetHeader(md metadata.MD) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.headerSent {
		return nil
	}
	return i.to.SetHeader(md)
}

// RecvMsg returns the request in the first call. After that it returns io.EOF.
func (i *inlet) RecvMsg(m any) error {
	if i.read {
		return io.EOF
	}
	i.read = true
	proto.Merge(m.(proto.Message), i.req)
	return nil
}
