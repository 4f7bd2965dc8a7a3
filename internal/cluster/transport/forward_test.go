package transport_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/cluster/router"
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
	"github.com/pawl-dev/pawl/internal/policy"
)

// unknown sets field 1000 of a message. No message type declares the field, and every node passes it on.
func unknown(m proto.Message, text string) proto.Message {
	m.ProtoReflect().SetUnknown(append([]byte{0xc2, 0x3e, byte(len(text))}, text...))
	return m
}

// TestEveryMethodIsForwarded: a node without the store forwards each call of the contract to the owner,
// unchanged and with its caller. The answer comes back unchanged.
func TestEveryMethodIsForwarded(t *testing.T) {
	t.Parallel()
	c := newTown()
	owner, other := c.node(t, "a"), c.node(t, "b")
	home := newHouse()
	home.unary = func(ctx context.Context, method string, req any) (any, error) {
		_ = grpc.SetHeader(ctx, metadata.Pairs("x-head", "h"))
		_ = grpc.SetTrailer(ctx, metadata.Pairs("x-tail", "t"))
		return unknown(router.MethodOf(method).NewResponse(), "answer"), nil
	}
	owner.ownPartitions(home)
	for _, op := range policy.Operations {
		m := router.MethodOf(op.Name)
		if m == nil || m.Rule == router.NodeInfo {
			continue
		}
		t.Run(op.Name, func(t *testing.T) {
			before := len(home.receivedCalls())
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", "00-1", "pawl-caller-bin", `{"Name":"mallory"}`, "pawl-part", "9", "authorization", "Bearer secret", "a2a-version", "1.0")
			var header, trailer metadata.MD
			if m.Streams() {
				header, trailer = exchange(ctx, t, other, op.Name, m)
			} else {
				var raw codec.Message
				if err := other.conn.Invoke(ctx, op.Name, unknown(m.NewRequest(), "request"), &raw, grpc.Header(&header), grpc.Trailer(&trailer)); err != nil {
					t.Fatal(err)
				}
				if got := string(raw); got != "\xc2\x3e\x06answer" {
					t.Errorf("the answer is %q", got)
				}
			}
			checkBeside(t, owner, header, trailer)
			if got := home.receivedCalls()[before:]; len(got) != 1 {
				t.Errorf("%d calls came", len(got))
			} else {
				checkCall(t, op.Name, m, got[0])
			}
			if !other.counts.hasLine("forwarded " + op.Name[1:] + " OK") {
				t.Error("it was not counted")
			}
		})
	}
}

// exchange sends the messages of a method, closes its side of the stream, and reads as many messages.
func exchange(ctx context.Context, t *testing.T, to *member, name string, m *router.Method) (header, trailer metadata.MD) {
	t.Helper()
	stream := must(to.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, name))(t)
	for range sends(m) {
		if err := stream.SendMsg(unknown(m.NewRequest(), "request")); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for {
		var raw codec.Message
		err := stream.RecvMsg(&raw)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != sends(m) {
		t.Errorf("%d messages came back", n)
	}
	return must(stream.Header())(t), stream.Trailer()
}

func sends(m *router.Method) int {
	if m.Rule == router.Bidi {
		return 3
	}
	return 1
}

func checkBeside(t *testing.T, owner *member, header, trailer metadata.MD) {
	t.Helper()
	if got := header.Get("x-head"); len(got) != 1 || got[0] != "h" {
		t.Errorf("header %v", header)
	}
	if got := trailer.Get("x-tail"); len(got) != 1 || got[0] != "t" {
		t.Errorf("trailer %v", trailer)
	}
	if got := trailer.Get(router.OwnerTrailer); len(got) != 1 || got[0] != owner.self.Address {
		t.Errorf("the owner is %v", got)
	}
}

func checkCall(t *testing.T, name string, m *router.Method, got call) {
	t.Helper()
	if got.method != name || got.caller != "alice" || got.scopes != alice.Scopes || !slices.Equal(got.namespaces, alice.Namespaces) || got.trace != "00-1" {
		t.Errorf("came as %+v", got)
	}
	if got.md.Get("authorization") != nil || len(got.md.Get("a2a-version")) != 1 {
		t.Errorf("came with %v", got.md)
	}
	if len(got.requests) != sends(m) {
		t.Errorf("%d requests came", len(got.requests))
	}
	for _, req := range got.requests {
		if string(req.ProtoReflect().GetUnknown()) != "\xc2\x3e\x07request" {
			t.Errorf("the request is %q", req.ProtoReflect().GetUnknown())
		}
	}
}
