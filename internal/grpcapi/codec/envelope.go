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
	"github.com/pawl-dev/pawl/internal/grpcapi/encoded"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// grpc-go itself answers an undecodable message with INTERNAL, before a handler or an
// interceptor runs. That blames the server for the caller's bytes. So requests are received
// into an envelope, which the codec fills without an error of its own, and the receiver checks
// it.

// envelope is a message on its way in.
type envelope struct {
	msg any
	// size is how many bytes it came in; fault is why they are no message.
	size  int
	fault error
}

// open returns what the receiver gets to hear of a received envelope.
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

// codec is gRPC's own codec, but for envelopes.
type codec struct {
	encoding.CodecV2
	// limit is how many bytes an envelope takes; 0 = as many as gRPC does.
	limit int
}

// NewCodec returns gRPC's own codec for protobuf, which receives into envelopes. A message of
// more than limit bytes is refused as REQUEST_TOO_LARGE; 0 leaves the limit to gRPC, whose
// refusal has no reason: RecvMsg answers the call itself, before any interceptor or handler.
func NewCodec(limit int) encoding.CodecV2 { return codec{encoding.GetCodecV2("proto"), limit} }

// tooLarge refuses a message by its size.
func tooLarge(limit, size int) error {
	return &machine.Error{
		Code: machine.CodeResourceExhausted, Reason: apierror.RequestTooLarge, Field: "(request)", Limit: int64(limit), Got: int64(size),
		Message: "the message has more bytes than the server takes (--limits-message-bytes): send less at once, put large values into blobs",
	}
}

// pooledBytes is up to where gRPC's pool has buffers of about the right size; behind
// it comes one of 1 MiB.
const pooledBytes = 32 << 10

// Marshal sends what is encoded already as it is, and takes a buffer of the message's own size for what is large: a slow reader
// holds what it was sent, buffers included.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if encoded, ok := v.(encoded.Message); ok {
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

// Unmarshal never fails for an envelope, nor where bytes are wanted as they came.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if raw, ok := v.(*encoded.Message); ok {
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

// Register adds a service whose unary methods receive envelopes.
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

// Stream receives envelopes.
type Stream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // it is the stream's, with the stream in it
	// size is the size of the last message in bytes, for its receiver.
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

// RecvMsg types the error of a message that could not be decoded.
func (s *Stream) RecvMsg(m any) error {
	in := envelope{msg: m}
	err := in.open(s.ServerStream.RecvMsg(&in))
	s.size = in.size
	return err
}

// Received is the size of the last message of a stream of this server.
func Received(ctx context.Context) int {
	if s, ok := ctx.Value(strictKey{}).(*Stream); ok {
		return s.size
	}
	return 0
}
