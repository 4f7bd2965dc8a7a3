package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/pawl-dev/pawl/internal/output"
)

func newHealth(p *output.Printer) *cobra.Command {
	c := &client{}
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Print the health status of a sidecar",
		Long: `Calls the health service of a sidecar and prints its status. Use it in scripts and container probes.

Exit codes: 0 SERVING; 1 another status; 2 no answer.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return c.With(func(conn *grpc.ClientConn) error { return askHealth(ctx, p, conn) })
		},
	}
	c.Bind(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "longest wait for the answer")
	return cmd
}

func askHealth(ctx context.Context, p *output.Printer, conn *grpc.ClientConn) error {
	got, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if p.JSON {
		err = output.WriteJSON(p.Out, output.Object{{Key: "status", Value: got.GetStatus().String()}})
	} else {
		p.Printf("%s\n", got.GetStatus())
	}
	if err == nil && got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		err = output.Fault()
	}
	return err
}
