// Command pawl-bench measures the speed and the size of the sidecar on this machine. It is a separate
// binary, so that the binary of the product does not contain the load generator.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/bench/load"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/server"
)

// version is the version of this program. The linker sets it. It is "" if the linker did not set it.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	code := execute(ctx, output.NewPrinter(os.Stdout, os.Stderr), os.Args[1:])
	stop()
	os.Exit(code)
}

// execute runs one command line and returns the exit code: 0 = success, 1 = some part of the benchmark could not be
// measured, 2 = wrong usage.
func execute(ctx context.Context, p *output.Printer, args []string) int {
	started := false
	cmd := newBench(p, &started)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	if err != nil && !started {
		err = output.Usage(err)
	}
	if err != nil && !output.IsReported(err) {
		p.FailTo(err, args)
	}
	return output.ExitCode(err)
}

// benchChild is the name of the hidden command that starts a process of a benchmark.
const benchChild = "bench-child"

const benchLong = `Measures throughput, latency, memory and disk use of the sidecar on this machine. Every commit is
synced. Each comparison is the median of interleaved rounds, with its spread. The reference values of
the same rounds are fsync, a gRPC echo, direct writes to Badger, and the committer without an engine.
Servers and load run in separate processes, which all end with the command.

The data is in a temporary directory in --dir, up to 2 GB, or up to 1 GB with --quick. Choose the file
system that the sidecar will use: on tmpfs the figures are meaningless.

With --store, the bench measures a PostgreSQL database beside the embedded store in the same rounds
(parts store and store-million), and three sidecars that share it (part cluster): calls through
another node, throughput, handovers and takeovers (--moves).

The bench waits up to two minutes (--wait) for an idle machine and reports how busy it was.

Exit codes: 0 everything was measured, also where a target was missed; 1 a part could not be
measured; 2 wrong usage.`

// newBench returns the root command, which prints with p. When a command line was parsed without an error, *started
// becomes true. If it is still false, execute reports an error as wrong usage.
func newBench(p *output.Printer, started *bool) *cobra.Command {
	opts := load.Options{}
	rounds, moves, format := 0, 0, "table"
	cmd := &cobra.Command{
		Use:           "pawl-bench",
		Version:       version,
		Short:         "Measures throughput, latency and size on this machine",
		Long:          benchLong,
		Args:          cobra.NoArgs,
		Example:       "pawl-bench --quick --part wire --dir /var/lib",
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if format != "table" && format != "json" {
				return fmt.Errorf("--output %q is none of table, json", format)
			}
			p.JSON, *started = format == "json", true
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rounds < 0 || moves < 0 {
				return output.Usage(fmt.Errorf("--rounds %d, --moves %d: want at least 1, or 0 for the default", rounds, moves))
			}
			opts.Sizes = load.FullSizes()
			if opts.Quick {
				opts.Sizes = load.QuickSizes()
				if !cmd.Flags().Changed("wait") {
					opts.Wait = 0
				}
			}
			if rounds > 0 {
				opts.Sizes.Rounds = rounds
			}
			if moves > 0 {
				opts.Sizes.Moves = moves
			}
			opts.Progress = p.Err
			return runBench(cmd.Context(), p, opts)
		},
	}
	cmd.AddCommand(newBenchChild(p))
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetHelpCommand(&cobra.Command{Hidden: true})
	cmd.SetOut(p.Out)
	cmd.SetErr(p.Err)
	cmd.PersistentFlags().StringVarP(&format, "output", "o", format, "table or json")
	cmd.Flags().IntVar(&rounds, "rounds", 0, "rounds of each comparison; 0 = 5, with --quick 3")
	cmd.Flags().IntVar(&moves, "moves", 0, "with --store: number of moves of the store after SIGTERM of its owner, and after SIGKILL; 0 = 10, with --quick 3")
	bindOptions(cmd, &opts)
	return cmd
}

// bindOptions adds those flags that store their values directly in opts.
func bindOptions(cmd *cobra.Command, opts *load.Options) {
	cmd.Flags().StringVar(&opts.Product, "pawl", "", "binary of the sidecar whose size the part binary measures (default: pawl beside this binary)")
	cmd.Flags().BoolVar(&opts.Quick, "quick", false, "smaller sizes and fewer rounds, within two minutes on two cores")
	cmd.Flags().DurationVar(&opts.Wait, "wait", load.QuietWait, "longest wait until the load of the machine is below 0.5 (with --quick: 0)")
	cmd.Flags().StringVar(&opts.Dir, "dir", "", "directory for the data (default: the temporary directory)")
	cmd.Flags().Var(&opts.Store, "store", "PostgreSQL database to measure beside the embedded store: postgres://USER@HOST[:PORT]/DATABASE; the bench creates schemas there and drops them")
	cmd.Flags().StringSliceVar(&opts.Parts, "part", nil, "measure only this part (repeatable): "+strings.Join(load.PartNames(), ", "))
	cmd.Flags().StringVar(&opts.Python, "python", "", "Python with the pawl package (default: that of the source tree)")
	cmd.Flags().StringVar(&opts.Node, "node", "", "Node for the TypeScript client of the source tree (default: node)")
	cmd.Flags().StringVar(&opts.Profiles, "cpuprofile", "", "directory for the CPU profiles of all processes (default: no profiles)")
}

func runBench(ctx context.Context, p *output.Printer, opts load.Options) error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	opts.Self = []string{path, benchChild}
	if opts.Product == "" {
		opts.Product = filepath.Join(filepath.Dir(path), "pawl")
	}
	report, err := load.Run(ctx, opts)
	if err != nil {
		return err
	}
	if p.JSON {
		err = output.WriteJSON(p.Out, report)
	} else {
		err = report.WriteTable(p.Out)
	}
	if err == nil && len(report.Faults) > 0 {
		err = output.Fault()
	}
	return err
}

// newBenchChild returns the command that runs one process of a benchmark. The parent process controls
// it over standard input and output.
func newBenchChild(p *output.Printer) *cobra.Command {
	spec := load.ChildSpec{In: os.Stdin, Out: p.Out}
	cmd := &cobra.Command{
		Use:    benchChild + " ROLE [-- ARG...]",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec.Role, spec.Args = args[0], args[1:]
			spec.Serve = func(ctx context.Context, flags []string, out io.Writer) error { return serve(ctx, flags, out, p.Err) }
			return load.Child(cmd.Context(), spec)
		},
	}
	cmd.Flags().StringVar(&spec.CPUProfile, "cpuprofile", "", "file for a CPU profile")
	return cmd
}

// serve runs the sidecar with the flags and the environment of `pawl serve`.
func serve(ctx context.Context, args []string, out, log io.Writer) error {
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	config.Flags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	c, err := config.Load(flags, os.LookupEnv)
	if err != nil {
		return err
	}
	return server.Serve(ctx, c, out, log)
}
