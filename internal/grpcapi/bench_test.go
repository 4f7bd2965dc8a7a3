package grpcapi

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/audit"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
	"github.com/pawl-dev/pawl/internal/services"
)

// BenchmarkInterceptors is what the chain costs a call that is in order, without
// transport and handler.
func BenchmarkInterceptors(b *testing.B) {
	for _, protected := range []bool{false, true} {
		name := "anonymous"
		if protected {
			name = "token"
		}
		b.Run(name, func(b *testing.B) { benchInterceptors(b, protected) })
	}
}

func benchInterceptors(b *testing.B, protected bool) {
	var tokens []auth.Token
	if protected {
		tokens = []auth.Token{{Principal: "p", Secret: goodSecret, Scopes: runtime.ScopeRunsWrite}}
	}
	set, err := auth.NewTokenSet(tokens)
	if err != nil {
		b.Fatal(err)
	}
	validator, err := protovalidate.New(protovalidate.WithMessageDescriptors(apierror.Requests()...))
	if err != nil {
		b.Fatal(err)
	}
	chain := unaryChain(&edge{log: slog.New(slog.DiscardHandler)}, auth.NewAuthenticator(operations(), auth.AuthState{Tokens: set}), newCallLimiter(1e9, quota.New(nil)), validator)
	ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs("authorization", "Bearer "+goodSecret))
	ctx = grpc.NewContextWithServerTransportStream(ctx, namedStream{})
	req := &pawlv1.EmitEventRequest{RunId: "01J00000000000000000000001", Event: "Again", EventId: "e", Artifacts: []*pawlv1.ArtifactWrite{text("note", "x")}}
	info := &grpc.UnaryServerInfo{FullMethod: pawlv1.RunService_EmitEvent_FullMethodName}
	answer := func(context.Context, any) (any, error) { return nil, nil }
	b.ReportAllocs()
	for b.Loop() {
		if _, err := call1(ctx, req, info, chain, answer); err != nil {
			b.Fatal(err)
		}
	}
}

// call1 runs interceptors around a handler, as gRPC does.
func call1(ctx context.Context, req any, info *grpc.UnaryServerInfo, chain []grpc.UnaryServerInterceptor, answer grpc.UnaryHandler) (any, error) {
	if len(chain) == 0 {
		return answer(ctx, req)
	}
	return chain[0](ctx, req, info, func(ctx context.Context, req any) (any, error) {
		return call1(ctx, req, info, chain[1:], answer)
	})
}

type namedStream struct{ grpc.ServerTransportStream }

func (namedStream) Method() string { return pawlv1.RunService_EmitEvent_FullMethodName }

// BenchmarkEmitEvent is the whole way of an event over loopback TCP, 64 runs at
// once, on a store in memory; with an audit each has a line.
func BenchmarkEmitEvent(b *testing.B) {
	b.Run("audit=off", func(b *testing.B) { benchEmitEvent(b, nil) })
	b.Run("audit=on", func(b *testing.B) {
		log, err := audit.Open(audit.Options{Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = log.Close() })
		benchEmitEvent(b, log)
	})
}

func benchEmitEvent(b *testing.B, log *audit.Log) {
	r := newRig(b, func(c *Config, _ *services.Config) { c.Listen, c.Audit = "127.0.0.1:0", log })
	ctx := context.Background()
	r.register(ctx)
	turns := make(chan *pawlv1.TurnRef, 64)
	for range cap(turns) {
		turns <- r.startOnly(ctx).GetTurn()
	}
	runs := dialTo(b, r.server.Addr(), insecure.NewCredentials())
	var failed atomic.Int64
	b.SetParallelism(32)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			turn := <-turns
			answer, err := runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{
				RunId: turn.GetRunId(), Event: "Again", TurnToken: turn.GetToken(), Artifacts: []*pawlv1.ArtifactWrite{text("note", "x")},
			})
			if err != nil {
				failed.Add(1)
				turns <- turn
				continue
			}
			turns <- answer.GetTurn()
		}
	})
	b.StopTimer()
	if n := failed.Load(); n > 0 {
		b.Fatalf("%d calls failed", n)
	}
}
