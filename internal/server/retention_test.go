package server

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/audit"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/retention"
)

// TestAuditOfRetentionIsTrue: if a deletion that the audit has announced is refused, the
// audit has the refusal, too.
func TestAuditOfRetentionIsTrue(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	trail, err := audit.Open(audit.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	teller := &retentionReporter{log: slog.New(slog.DiscardHandler), audit: trail}
	run := retention.RunOutcome{Rule: "old", Namespace: "default", RunID: "r", Archive: "/srv/r.pawlrun"}
	for _, end := range []retention.RunOutcome{
		{Outcome: retention.Deleted, Announced: true},
		{Outcome: retention.Failed, Announced: true, Err: &machine.Error{Code: machine.CodeResourceExhausted, Reason: "DISK_LOW"}},
		{Outcome: retention.Needed, Announced: true},
		{Outcome: retention.Gone, Announced: true},
		{Outcome: retention.Gone},
		{Outcome: retention.Unarchived, Err: os.ErrNotExist},
	} {
		taken := run
		taken.Outcome, taken.Announced, taken.Err = end.Outcome, end.Announced, end.Err
		if end.Announced {
			if err := teller.line(run); err != nil {
				t.Fatal(err)
			}
		}
		teller.taken(taken)
	}
	if err := trail.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%v, %v", names, err)
	}
	text, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	var outcomes []string
	for line := range strings.Lines(string(text)) {
		for _, outcome := range []string{`"OK"`, `"RESOURCE_EXHAUSTED","reason":"DISK_LOW"`, `"FAILED_PRECONDITION"`} {
			if strings.Contains(line, `"outcome":`+outcome) && strings.Contains(line, `"method":"retention"`) {
				outcomes = append(outcomes, outcome)
			}
		}
	}
	if got := strings.Join(outcomes, " "); got != `"OK" "OK" "RESOURCE_EXHAUSTED","reason":"DISK_LOW" "OK" "FAILED_PRECONDITION" "OK" "FAILED_PRECONDITION"` {
		t.Errorf("lines %s\n%s", got, text)
	}
}
