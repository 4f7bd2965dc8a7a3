package codec

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that is wrapped
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// If a message cannot be decoded, grpc-go itself answers with INTERNAL before a handler or an
// interceptor runs. This is wrong, because the bytes of the caller are at fault. So this package
// receives requests into an envelope. The codec fills the envelope without an error, and the receiver
// then checks it.

// envelope holds a received message, or the reason why its bytes are not a message.
type envelope struct {
	msg any
	// size is the number of received bytes. fault is the error that occurred while they were decoded.
	size  int
	fault error
}

// open returns the error that the receiver must return. This is err or, if err is nil, the decoding
// error.
func (e *envelope) open(err error) error {
	if err != nil || e.fault == nil {
		return err
	}
	if refusal, ok := errors.AsType[*machine.Error](e.fault); ok {
		return refusal
	}
	return &machine.Error{
		Code: machine.CodeInvalidArgument, Reason: "MALFORMED_MESSAGE", Field: "(request)",
		Message: fmt.Sprintf("the bytes are no %s: %v", messageName(e.msg), e.fault),
	}
}

func messageName(m any) string {
	if msg, ok := m.(proto.Message); ok {
		return string(msg.ProtoReflect().Descriptor().FullName())
	}
	return "protobuf message"
}

// codec is gRPC's own codec, extended by two types: an envelope, into which it decodes, and a Message, whose bytes it
// sends unchanged.
type codec struct {
	encoding.CodecV2
	// limit is the maximum size of a received message in bytes. 0 means gRPC's own limit.
	limit int
}

// NewCodec returns gRPC's codec for protobuf, extended to receive into envelopes. It refuses a message
// with more than limit bytes with REQUEST_TOO_LARGE. If limit is 0, gRPC itself refuses large messages.
// Its error has no reason, because gRPC answers the call before any interceptor or handler runs.
func NewCodec(limit int) encoding.CodecV2 { return codec{encoding.GetCodecV2("proto"), limit} }

// tooLarge returns the error for a message that has too many bytes.
func tooLarge(limit, size int) error {
	return &machine.Error{
		Code: machine.CodeResourceExhausted, Reason: apierror.RequestTooLarge, Field: "(request)", Limit: int64(limit), Got: int64(size),
		Message: "the message has more bytes than the server takes (--limits-message-bytes): send less at once, put large values into blobs",
	}
}

// pooledBytes is the size in bytes up to which a message is encoded into a buffer of gRPC's pool. For a larger
// message, the pool would return a buffer of 1 MiB.
const pooledBytes = 32 << 10

// Marshal sends an encoded message unchanged. For a large message it allocates a buffer of the exact size,
// because a slow reader keeps the buffers of the messages that it has not read.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if encoded, ok := v.(Message); ok {
		return mem.BufferSlice{mem.SliceBuffer(encoded)}, nil
	}
	m, ok := v.(proto.Message)
	if !ok || proto.Size(m) <= pooledBytes {
		return c.CodecV2.Marshal(v)
	}
	data, err := proto.MarshalOptions{UseCachedSize: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(data)}, nil
}

// Unmarshal decodes a received message. It never returns an error for an envelope or an encoded
// message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if raw, ok := v.(*Message); ok {
		*raw = data.Materialize()
		return nil
	}
	e, ok := v.(*envelope)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	e.size = data.Len()
	if c.limit > 0 && e.size > c.limit {
		e.fault = tooLarge(c.limit, e.size)
		return nil
	}
	e.fault = c.CodecV2.Unmarshal(data, e.msg)
	return nil
}

// Register registers a service. Its unary methods receive a request in an envelope, so that bytes which are not a
// message cause INVALID_ARGUMENT.
func Register(to grpc.ServiceRegistrar, desc *grpc.ServiceDesc, impl any) {
	strict := *desc
	strict.Methods = make([]grpc.MethodDesc, len(desc.Methods))
	for i, method := range desc.Methods {
		strict.Methods[i] = grpc.MethodDesc{MethodName: method.MethodName, Handler: strictHandler(method.Handler)}
	}
	to.RegisterService(&strict, impl)
}

func strictHandler(next grpc.MethodHandler) grpc.MethodHandler {
	return func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		return next(srv, ctx, func(m any) error {
			in := envelope{msg: m}
			err := in.open(decode(&in))
			if err == nil {
				return nil
			}
			st, _ := apierror.Status(err)
			return st.Err()
		}, intercept)
	}
}

// Stream is a server stream that receives messages in envelopes, so that bytes which are not a message cause
// INVALID_ARGUMENT.
type Stream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // it is the stream's, with the stream in it
	// size is the size of the last message, in bytes.
	size int
}

type strictKey struct{}

// NewStream wraps a stream of this server.
func NewStream(stream grpc.ServerStream) *Stream {
	s := &Stream{ServerStream: stream}
	s.ctx = context.WithValue(stream.Context(), strictKey{}, s)
	return s
}

// Context implements grpc.ServerStream.
func (s *Stream) Context() context.Context { return s.ctx }

// RecvMsg returns a typed error for a message that cannot be decoded.
func (s *Stream) RecvMsg(m any) error {
	in := envelope{msg: m}
	err := in.open(s.ServerStream.RecvMsg(&in))
	s.size = in.size
	return err
}

// Received returns the size of the last message that was received on the stream of ctx, in bytes.
func Received(ctx context.Context) int {
	if s, ok := ctx.Value(strictKey{}).(*Stream); ok {
		return s.size
	}
	return 0
}
