package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/pawl-dev/pawl/internal/output"
)

func main() { os.Exit(run()) }

// run executes the command line and returns the exit code. 0 means success. 1 means that a fault was found or a request was refused. 2
// means wrong usage, unreadable input or no server. The first SIGINT or SIGTERM ends the context, and a second one ends the process.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return execute(ctx, output.NewPrinter(os.Stdout, os.Stderr), os.Args[1:])
}
