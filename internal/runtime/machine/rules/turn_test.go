package rules

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestBackoff: doubled, capped, moved by at most a fifth, the same every time
// and different between runs.
func TestBackoff(t *testing.T) {
	t.Parallel()
	p := machine.RetryPolicy{Initial: time.Second, Max: 10 * time.Second}
	seen := map[time.Duration]bool{}
	for run := range 200 {
		for attempt := 1; attempt <= 8; attempt++ {
			base := min(time.Second<<(attempt-1), 10*time.Second)
			name := fmt.Sprintf("run-%d", run)
			got := backoff(p, jitter(name, 7, attempt), attempt)
			if got < base*8/10 || got > base*12/10 {
				t.Fatalf("attempt %d pauses %s, want %s give or take a fifth", attempt, got, base)
			}
			if again := backoff(p, jitter(name, 7, attempt), attempt); again != got {
				t.Fatalf("the pause of attempt %d is %s, then %s", attempt, got, again)
			}
			seen[got] = true
		}
	}
	if len(seen) < 1500 {
		t.Errorf("only %d different pauses of 1600", len(seen))
	}
}

// TestBackoffDefaults: 1 s, at most 60 s; huge caps do not overflow.
func TestBackoffDefaults(t *testing.T) {
	t.Parallel()
	if got := backoff(machine.RetryPolicy{}, jitter("R", 1, 1), 1); got < 800*time.Millisecond || got > 1200*time.Millisecond {
		t.Errorf("first pause is %s", got)
	}
	if got := backoff(machine.RetryPolicy{}, jitter("R", 1, 1000), 1000); got < 48*time.Second || got > 72*time.Second {
		t.Errorf("1000th pause is %s", got)
	}
	year := 365 * 24 * time.Hour
	if got := backoff(machine.RetryPolicy{Initial: year, Max: 100 * year}, jitter("R", 1, 20), 20); got < 80*year || got > 120*year {
		t.Errorf("capped at 100 years it is %s", got)
	}
	if got := backoff(machine.RetryPolicy{Initial: 1, Max: 1}, jitter("R", 1, 1), 1); got < 1 {
		t.Errorf("the pause of a nanosecond is %s", got)
	}
}
