package pgserver

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Require skips a test unless PAWL_POSTGRES=1 asks for those on PostgreSQL. If it does and
// there is none, the test fails.
func Require(tb testing.TB) {
	tb.Helper()
	if os.Getenv("PAWL_POSTGRES") != "1" {
		tb.Skip("tests on PostgreSQL run with PAWL_POSTGRES=1: make test-postgres")
	}
	if runtime.GOOS != "linux" {
		tb.Skip("PostgreSQL is started for tests on Linux alone")
	}
	if _, err := binary("postgres"); err != nil {
		tb.Fatal(err)
	}
}

var errNoServer = errors.New("PAWL_POSTGRES=1, and there is no PostgreSQL: neither PAWL_POSTGRES_BIN nor /usr/lib/postgresql/*/bin nor the PATH have its binaries; .ci/postgres-env installs them")

// binary finds a program of PostgreSQL. Those of Debian are in no PATH.
func binary(name string) (string, error) {
	if dir := os.Getenv("PAWL_POSTGRES_BIN"); dir != "" {
		return exec.LookPath(filepath.Join(dir, name))
	}
	all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name) // the pattern is well formed
	if len(all) > 0 {
		return slices.MaxFunc(all, func(a, b string) int { return major(a) - major(b) }), nil
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return "", errNoServer
	}
	return found, nil
}

// major is the version in the path of a binary of Debian's.
func major(path string) int {
	parts := strings.Split(path, "/")
	n, _ := strconv.Atoi(parts[4]) // 0 for what is no number
	return n
}

// Program returns the path of a program of PostgreSQL, for example of psql.
func Program(name string) (string, error) { return binary(name) }

// RunAsServerUser makes a command run as the user of the servers of the tests, which is not root, with its own
// environment.
func RunAsServerUser(cmd *exec.Cmd) error { return prepare(cmd) }
