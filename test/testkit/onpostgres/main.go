package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

const (
	sidecarVar  = "PAWL_TEST_SIDECAR"
	databaseVar = "PAWL_TEST_DATABASE"
)

func main() {
	var err error
	if len(os.Args) > 2 && os.Args[1] == "run" {
		err = run(os.Args[2:])
	} else {
		err = execSidecar(os.Args[1:])
	}
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(ended.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "onpostgres:", err)
		os.Exit(1)
	}
}

// run runs a command beside a server.
func run(args []string) error {
	sidecar := os.Getenv("PAWL_SIDECAR")
	if sidecar == "" {
		return errors.New("PAWL_SIDECAR is not set: the program under test")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	server, err := pgserver.Launch(pgserver.Setting("max_connections", "500"))
	if err != nil {
		return err
	}
	defer server.End()
	// The command gets the signals of the terminal itself; this waits for it.
	signal.Ignore(os.Interrupt)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), sidecarVar+"="+sidecar, databaseVar+"="+server.URL("postgres"), "PAWL_SIDECAR="+self)
	return cmd.Run()
}

// execSidecar makes this process the sidecar, with its signals and its exit code.
func execSidecar(args []string) error {
	sidecar := os.Getenv(sidecarVar)
	return syscall.Exec(sidecar, append([]string{sidecar}, pgserver.InsteadOfDirectory(args, os.Getenv(databaseVar))...), os.Environ())
}
