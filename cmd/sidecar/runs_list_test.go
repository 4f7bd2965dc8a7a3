package main

import (
	"strings"
	"testing"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestTimeRange: --created-after and --created-before of `pawl runs list` are times of RFC 3339 or durations back from now.
func TestTimeRange(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		since, until  string
		after, before string // as RFC 3339, "" = unset
		fault         string // "" = none
	}{
		{"", "", "", "", ""},
		{"24h", "", "2026-03-01T12:00:00Z", "", ""},
		{"", "90m", "", "2026-03-02T10:30:00Z", ""},
		{"48h", "0s", "2026-02-28T12:00:00Z", "2026-03-02T12:00:00Z", ""},
		{"2026-03-01T01:00:00+02:00", "2026-03-02T00:00:00Z", "2026-02-28T23:00:00Z", "2026-03-02T00:00:00Z", ""},
		{"yesterday", "", "", "", `--created-after "yesterday" is neither a time`},
		{"", "2026-03-01", "", "", `--created-before "2026-03-01" is neither a time`},
		{"-24h", "", "", "", `--created-after "-24h" is neither a time`},
		{"24h", "48h", "", "", `--created-after "24h" is not before --created-before "48h"`},
	} {
		filter := &pawlv1.RunFilter{}
		err := timeRange{c.since, c.until}.set(filter, now)
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("since %q, until %q: error %v, want %q", c.since, c.until, err, c.fault)
			}
			continue
		}
		after, before := "", ""
		if filter.CreatedAfter != nil {
			after = filter.GetCreatedAfter().AsTime().Format(time.RFC3339)
		}
		if filter.CreatedBefore != nil {
			before = filter.GetCreatedBefore().AsTime().Format(time.RFC3339)
		}
		if err != nil || after != c.after || before != c.before {
			t.Errorf("since %q, until %q: %q to %q, error %v; want %q to %q", c.since, c.until, after, before, err, c.after, c.before)
		}
	}
}
