package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/build"
	"github.com/pawl-dev/pawl/internal/mcpserver"
	"github.com/pawl-dev/pawl/internal/output"
)

func newMCP(*output.Printer) *cobra.Command {
	c := &client{}
	var execution string
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve the agents of a sidecar as MCP tools over standard input and output",
		Long: `Serves the agents of a running sidecar as MCP tools over standard input and output, for clients that
start their servers as commands, for example desktop assistants and editors. Each agent of a registered pack is a
tool. A call starts a run and returns its result. The runs belong to the sidecar: they go on when this command ends.

A sidecar with an HTTP port serves the same at /mcp.`,
		Example: `  pawl mcp --addr 127.0.0.1:7291
  pawl mcp --namespace blue --execution WORKERS`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"", "WORKERS", "SIDECAR"}, execution) {
				return output.Usage(fmt.Errorf("--execution %q is none of WORKERS, SIDECAR", execution))
			}
			return c.With(func(conn *grpc.ClientConn) error {
				service, err := mcpserver.New(mcpserver.Config{
					Conn: conn, Version: build.Version(), Execution: pawlv1.Execution(pawlv1.Execution_value["EXECUTION_"+execution]),
				})
				if err != nil {
					return err
				}
				return service.Serve(cmd.Context(), c.Namespace, os.Stdin, os.Stdout)
			})
		},
	}
	cmd.Flags().StringVar(&execution, "execution", "", "executor of the runs: WORKERS or SIDECAR (default: the sidecar where it has a model)")
	completeFrom(cmd, "execution", "WORKERS", "SIDECAR")
	c.Bind(cmd)
	return cmd
}
