package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/sidecar/internal/demo"
	"github.com/pawl-dev/pawl/internal/output"
)

func newDemo(p *output.Printer) *cobra.Command {
	o := demo.Options{Printer: p}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a codegen loop end to end, with a crash in the middle",
		Long: `Runs RFC 0009's codegen loop on a sidecar process of its own: the model's answers
are recorded, the tools are real. In the middle the sidecar is killed with SIGKILL
and started again; the run goes on with no count changed. Needs the go command.

Exit codes: 0 everything was as it must be; 1 something was not; 2 no go command.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Binary, err = os.Executable(); err != nil {
				return err
			}
			return demo.Run(cmd.Context(), o)
		},
	}
	cmd.Flags().Var(&o.Store, "store", "PostgreSQL database that has the store instead of a directory, in a schema of its own that the demo leaves there")
	cmd.Flags().BoolVar(&o.Keep, "keep", false, "keep data and workspace, and say where they are")
	return cmd
}
