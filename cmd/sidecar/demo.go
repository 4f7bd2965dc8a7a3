package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/sidecar/internal/demo"
	"github.com/pawl-dev/pawl/internal/output"
)

func newDemo(p *output.Printer) *cobra.Command {
	o := demo.RefundOptions{Options: demo.Options{Printer: p}}
	var yes bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show an agent that survives a crash, waits for a person and keeps a budget",
		Long: `Runs an agent that pays refunds. Each payment is a line in a ledger file. The command kills app
and sidecar with SIGKILL between a payment and its record and starts them again; a payment above
100 waits for a person; the budget of the run ends a model that would go on paying. At the end it
compares the ledger with the journal. The model is recorded: the demo needs no network, no key and
no toolchain.

At a terminal the demo waits up to a minute for your decision; otherwise it approves by itself.

Exit codes: 0 everything was as it must be; 1 something was not.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Binary, err = os.Executable(); err != nil {
				return err
			}
			if !yes && isTerminal(os.Stdin) && isTerminal(os.Stdout) && !p.JSON {
				o.Person = os.Stdin
			}
			return demo.RunRefunds(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.Keep, "keep", false, "keep the files of the demo and print their directory")
	cmd.Flags().BoolVar(&yes, "yes", false, "approve the held payment without asking")
	cmd.AddCommand(newDemoCodegen(p), newDemoApp())
	return cmd
}

// isTerminal reports whether a file is a terminal.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// newDemoApp is the app of the demo, which the demo starts as a process of its own.
func newDemoApp() *cobra.Command {
	var o demo.AppOptions
	cmd := &cobra.Command{
		Use: "app", Short: "The app of the demo", Args: cobra.NoArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Out = cmd.OutOrStdout()
			return demo.RunApp(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.Addr, "addr", "", "HOST:PORT of the sidecar")
	cmd.Flags().StringVar(&o.Ledger, "ledger", "", "path of the ledger")
	cmd.Flags().StringVar(&o.HangAt, "hang-at", "", "order in whose payment the app hangs")
	return cmd
}

func newDemoCodegen(p *output.Printer) *cobra.Command {
	o := demo.Options{Printer: p}
	cmd := &cobra.Command{
		Use:   "codegen",
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
