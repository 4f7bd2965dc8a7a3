package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/test/e2e/play"
	"github.com/pawl-dev/pawl/test/testkit/child"
)

// TestOlderBuild starts the program as it was before the last change of what a store has, or that of the commit
// PAWL_OLDER, then this one over its directory, then the older one again, as docs/operations/upgrades.md allows if the
// format is the same, and so on. Callers drive runs through all exchanges, and nothing that was acknowledged is missing.
func TestOlderBuild(t *testing.T) {
	t.Parallel()
	if os.Getenv("PAWL_POSTGRES") == "" && os.Getenv("PAWL_OLDER") == "" {
		t.Skip("it builds an older commit, which takes a minute: make test-postgres, or PAWL_OLDER=COMMIT")
	}
	commit, err := child.OlderCommit()
	if errors.Is(err, child.ErrNoHistory) {
		t.Skipf("NOT RUN: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	older, err := child.BuildAt(commit, "cmd/sidecar")
	if err != nil {
		t.Fatal(err)
	}
	s := newSidecar(t, desk...)
	s.program = older
	s.start()
	programs := []string{"", older, ""}
	drivers := play.UnderCrashes(t.Context(), t, len(programs), 4, s.runs, func(ctx context.Context, acked *atomic.Int64) {
		play.AwaitCount(ctx, t, acked, acked.Load()+60)
		if code := s.stop(); code != 0 {
			t.Errorf("%q: exit code %d after SIGTERM, want 0\n%s", s.program, code, s.stderr.String())
		}
		s.program, programs = programs[0], programs[1:]
		s.start()
	})
	for _, d := range drivers {
		for _, loss := range lostOf(t.Context(), s.runs(), d.Run, d.Ledger) {
			t.Errorf("script %d: %s", d.Script, loss)
		}
	}
	s.stop()
	s.check()
	out, err := exec.Command(older, "check", "--data", s.dir).CombinedOutput()
	if err != nil {
		t.Errorf("pawl check by %s: %v\n%s", commit, err, out)
	}
	t.Logf("%s and this program in turns: %s", commit, strings.TrimSpace(string(out)))
}
