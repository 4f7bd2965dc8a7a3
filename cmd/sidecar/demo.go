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
		Long: `Runs an agent that pays refunds. Each payment is a line in a ledger file. The command kills the app
and the sidecar with SIGKILL between a payment and its record, and starts them again. A payment above
100 waits for a person. The budget of the run ends a model that would continue to pay. At the end
the command compares the ledger with the journal. The model is recorded: the demo needs no network, no
key and no toolchain.

At a terminal the demo waits up to a minute for your decision; otherwise it approves by itself.

Exit codes: 0 all checks passed; 1 a check failed.`,
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

// isTerminal reports whether a file is a character device. Terminals are, and /dev/null is one too.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// newDemoApp returns the hidden command that runs the demo's app. The demo starts it as a process of its own and holds its standard input,
// so that the app ends with the demo.
func newDemoApp() *cobra.Command {
	var o demo.AppOptions
	cmd := &cobra.Command{
		Use: "app", Short: "The app of the demo", Args: cobra.NoArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Out = cmd.OutOrStdout()
			return demo.RunApp(untilEnd(cmd.Context(), cmd.InOrStdin()), o)
		},
	}
	cmd.Flags().StringVar(&o.Addr, "addr", "", "HOST:PORT of the sidecar")
	cmd.Flags().StringVar(&o.Ledger, "ledger", "", "path of the ledger")
	cmd.Flags().StringVar(&o.HangAt, "hang-at", "", "order in whose payment the app hangs")
	return cmd
}

func newDemoCodegen(p *output.Printer) *cobra.Command {
	o := demo.CodegenOptions{Options: demo.Options{Printer: p}}
	cmd := &cobra.Command{
		Use:   "codegen",
		Short: "Run the codegen loop of RFC 0009 with a crash in the middle",
		Long: `Runs RFC 0009's codegen loop on a sidecar in a separate process. The model's answers are recorded; the
tools are real. The command kills the sidecar with SIGKILL in the middle and starts it again; the run
then continues with the same counts. Needs the go command.

Exit codes: 0 all checks passed; 1 a check failed; 2 there is no go command.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Binary, err = os.Executable(); err != nil {
				return err
			}
			return demo.RunCodegen(cmd.Context(), o)
		},
	}
	cmd.Flags().Var(&o.Store, "store", "PostgreSQL database for the store instead of a directory; the demo creates a schema and does not drop it")
	cmd.Flags().BoolVar(&o.Keep, "keep", false, "keep data and workspace and print their directories")
	return cmd
}
