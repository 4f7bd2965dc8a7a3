//go:build !linux

package pgserver

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// These functions are never called, because [Require] skips the tests.
const pause, resume, fast, quit, reload syscall.Signal = 0, 0, 0, 0, 0

var errNoLinux = errors.New("PostgreSQL is started for tests on Linux alone")

func chownToServer(string) error          { return errNoLinux }
func prepare(*exec.Cmd) error             { return errNoLinux }
func launch(*exec.Cmd) error              { return errNoLinux }
func killAll(int)                         {}
func signalAll(int, syscall.Signal)       {}
func waitFor(func() bool) bool            { return false }
func lock(string, bool) (*os.File, error) { return nil, errNoLinux }
