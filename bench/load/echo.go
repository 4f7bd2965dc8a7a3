package load

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// echoChild is a bare gRPC server that knows the health service only.
func echoChild(ctx context.Context, _ ChildSpec, w *wire) error {
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer())
	return serveBare(ctx, server, w)
}

// serveBare serves on a free loopback port until ctx ends.
func serveBare(ctx context.Context, server *grpc.Server, w *wire) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	w.send(ready{Ready: true, GRPC: listener.Addr().String()})
	if err := server.Serve(listener); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	// The end came before Serve had begun.
	return nil
}
