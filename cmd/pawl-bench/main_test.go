package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/output"
)

// TestUsage holds the exit codes of wrong command lines and of parts that cannot be measured.
func TestUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line string
		code int
		text string
	}{
		{"--moves -1", 2, "--moves -1: want at least 1"},
		{"--rounds -1 --quick", 2, "--rounds -1"},
		{"--part cluster", 1, `part "cluster" needs a database: --store`},
		{"--part nonsense", 1, "inprocess, wire"},
		{"--nope", 2, "unknown flag: --nope"},
		{"-o xml", 2, `--output "xml" is none of table, json`},
		{"wire", 2, "wire"},
		{"bench-child nonsense", 1, "want one of"},
		{"bench-child serve -- --nope", 1, "unknown flag: --nope"},
		{"--quick --part binary --pawl no/such/file", 1, "no/such/file"},
		{"--help", 0, "--part"},
	} {
		var out bytes.Buffer
		if code := execute(t.Context(), &output.Printer{Out: &out, Err: &out}, strings.Fields(c.line)); code != c.code || !strings.Contains(out.String(), c.text) {
			t.Errorf("%s: exit code %d, want %d:\n%s", c.line, code, c.code, &out)
		}
	}
}

// TestServe: the child that serves is the sidecar, which says where and ends with its context.
func TestServe(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	out := writer(func(line string) {
		if !strings.Contains(line, `"ready":true`) {
			t.Errorf("got %s", line)
		}
		cancel()
	})
	if err := serve(ctx, []string{"--data", t.TempDir(), "--listen", "127.0.0.1:0", "--log-level", "error"}, out, t.Output()); err != nil {
		t.Error(err)
	}
}

// writer calls itself with what is written.
type writer func(string)

func (w writer) Write(b []byte) (int, error) {
	w(string(b))
	return len(b), nil
}
