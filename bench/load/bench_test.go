package load

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/server"
)

// childArg makes the test binary a child of the bench instead of a test run.
const childArg = "bench-child"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == childArg {
		os.Exit(childMain(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// childMain reads ROLE [--cpuprofile FILE] -- ARG...
func childMain(args []string) int {
	spec := ChildSpec{Role: args[0], In: os.Stdin, Out: os.Stdout, Serve: serve}
	args = args[1:]
	if args[0] == "--cpuprofile" {
		spec.CPUProfile, args = args[1], args[2:]
	}
	spec.Args = args[1:]
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := Child(ctx, spec); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// serve is `pawl serve` as the command line has it.
func serve(ctx context.Context, args []string, out io.Writer) error {
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	config.Flags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	c, err := config.Load(flags, func(string) (string, bool) { return "", false })
	if err != nil {
		return err
	}
	return server.Serve(ctx, c, out, os.Stderr)
}

// self is the command that makes this test binary a child.
func self(t *testing.T) []string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{path, childArg}
}

// tinySizes measure next to nothing, quickly.
func tinySizes() Sizes {
	sizes := QuickSizes()
	sizes.Rounds, sizes.Warm, sizes.Window, sizes.Fsyncs = 1, 0.1, 0.4, 5
	sizes.ManyRuns, sizes.ListedRuns = 300, 300
	sizes.WaitingRuns, sizes.LongHistory, sizes.HistoryStep, sizes.StoredTransitions = 200, 150, 10, 60
	sizes.IdleStarts, sizes.IdleWatchers, sizes.IdleWorkers, sizes.Moves, sizes.ModelPairs = 1, 10, 20, 1, 2
	return sizes
}

// tinySuite is a suite of tinySizes, for its parts.
func tinySuite(t *testing.T) *suite {
	t.Helper()
	s, cleanup, err := newSuite(Options{Self: self(t), Sizes: tinySizes(), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cleanup)
	return s
}
