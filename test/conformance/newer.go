package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	// Registers the messages of the contract.
	_ "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// newerServer plays a server of a later version: it passes every call on to the sidecar
// and adds fields that this version does not know to every message of an answer,
// at every depth.
type newerServer struct {
	server *grpc.Server
	to     *grpc.ClientConn
	addr   string
}

func startNewer(to string) (*newerServer, error) {
	conn, err := grpc.NewClient(to, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	n := &newerServer{to: conn, addr: listener.Addr().String()}
	n.server = grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.MaxRecvMsgSize(64<<20),
		grpc.UnknownServiceHandler(n.pass))
	go func() { _ = n.server.Serve(listener) }()
	return n, nil
}

func (n *newerServer) address() string { return n.addr }

func (n *newerServer) close() error {
	n.server.Stop()
	return n.to.Close()
}

// pass serves one call of any method.
func (n *newerServer) pass(_ any, down grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(down)
	answer, err := answerOf(method)
	if err != nil {
		return status.Error(codes.Unimplemented, err.Error())
	}
	ctx, cancel := context.WithCancel(down.Context())
	defer cancel()
	in, _ := metadata.FromIncomingContext(ctx)
	up, err := n.to.NewStream(metadata.NewOutgoingContext(ctx, in),
		&grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	go func() {
		_ = forward(down.RecvMsg, up.SendMsg, nil)
		_ = up.CloseSend()
	}()
	err = forward(up.RecvMsg, down.SendMsg, answer)
	down.SetTrailer(up.Trailer())
	return err
}

// forward copies messages until the stream ends. Those of a type get its fields.
func forward(from, to func(any) error, kind protoreflect.MessageType) error {
	for {
		var message []byte
		if err := from(&message); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if kind != nil {
			var err error
			if message, err = age(message, kind); err != nil {
				return err
			}
		}
		if err := to(&message); err != nil {
			return err
		}
	}
}

// answerOf is the type of a method's answers.
func answerOf(method string) (protoreflect.MessageType, error) {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return nil, err
	}
	described, ok := found.(protoreflect.MethodDescriptor)
	if !ok {
		return nil, fmt.Errorf("%s is no method", name)
	}
	return protoregistry.GlobalTypes.FindMessageByName(described.Output().FullName())
}

// age adds unknown fields to an encoded message and all that are in it.
func age(encoded []byte, kind protoreflect.MessageType) ([]byte, error) {
	message := kind.New()
	if err := proto.Unmarshal(encoded, message.Interface()); err != nil {
		return nil, err
	}
	ageMessage(message)
	return proto.Marshal(message.Interface())
}

func ageMessage(message protoreflect.Message) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap():
			if field.MapValue().Message() != nil {
				value.Map().Range(func(_ protoreflect.MapKey, one protoreflect.Value) bool {
					ageMessage(one.Message())
					return true
				})
			}
		case field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				ageMessage(value.List().Get(i).Message())
			}
		default:
			ageMessage(value.Message())
		}
		return true
	})
	if strings.HasPrefix(string(message.Descriptor().FullName()), "pawl.v1.") {
		message.SetUnknown(append(message.GetUnknown(), fromTheFuture...))
	}
}

// fromTheFuture are fields of every wire type that no message of the contract has.
var fromTheFuture = func() (b []byte) {
	b = protowire.AppendTag(b, 15001, protowire.VarintType)
	b = protowire.AppendVarint(b, 1<<63)
	b = protowire.AppendTag(b, 15002, protowire.Fixed32Type)
	b = protowire.AppendFixed32(b, 7)
	b = protowire.AppendTag(b, 15003, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, 7)
	b = protowire.AppendTag(b, 15004, protowire.BytesType)
	b = protowire.AppendString(b, "from a newer server\xff")
	b = protowire.AppendTag(b, 15005, protowire.StartGroupType)
	b = protowire.AppendTag(b, 1, protowire.VarintType)
	b = protowire.AppendVarint(b, 1)
	return protowire.AppendTag(b, 15005, protowire.EndGroupType)
}()

// rawCodec hands encoded messages through.
type rawCodec struct{}

var _ encoding.CodecV2 = rawCodec{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}
