package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/conformance/godriver"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "driver" {
		godriver.Serve(os.Stdin, os.Stdout)
		return
	}
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	set, err := parse(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, set.limit)
	defer cancel()
	defer context.AfterFunc(ctx, set.processes.kill)()
	began := time.Now()
	columns := runLanes(ctx, set)
	if printTable(os.Stdout, set, columns, time.Since(began)) > 0 {
		return 1
	}
	return 0
}

// settings are what the command line asks for.
type settings struct {
	// root is the directory of the module.
	root string
	// binary is the sidecar under test.
	binary    string
	languages []language
	scenarios []*scenario
	processes *processes
	// limit bounds the whole.
	limit time.Duration
	// lanes is how many scenarios of a language run at once.
	lanes int
	// times adds seconds to each cell.
	times bool
}

func parse(args []string) (*settings, error) {
	set := &settings{processes: newProcesses()}
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.StringVar(&set.root, "root", ".", "directory of the module")
	flags.StringVar(&set.binary, "sidecar", os.Getenv("PAWL_SIDECAR"), "the program under test (default ROOT/bin/sidecar)")
	flags.DurationVar(&set.limit, "limit", 10*time.Minute, "longest time of the whole")
	flags.IntVar(&set.lanes, "lanes", 2, "scenarios of a language that run at once")
	flags.BoolVar(&set.times, "times", false, "show how many seconds each scenario took")
	only := flags.String("only", "", "regular expression of the scenarios to run (default: all)")
	names := flags.String("languages", "go,python,typescript", "columns to run")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if set.lanes < 1 {
		return nil, fmt.Errorf("lanes: at least 1, not %d", set.lanes)
	}
	var err error
	if set.languages, err = languagesOf(set.root, *names); err != nil {
		return nil, err
	}
	if set.binary, err = binaryOf(set.root, set.binary); err != nil {
		return nil, err
	}
	set.scenarios, err = loadScenarios(set.root, *only)
	return set, err
}
