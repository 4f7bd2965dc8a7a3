package host

import (
	"context"
	"strings"
	"testing"
	"time"
)

// loads plays a machine whose load takes one value after the other.
func loads(wait time.Duration, values ...float64) (quiet, *time.Duration) {
	var slept time.Duration
	at := -1
	return quiet{
		wait: wait,
		readLoad: func() (float64, bool) {
			at = min(at+1, len(values)-1)
			return values[max(at, 0)], len(values) > 0
		},
		pause: func(_ context.Context, d time.Duration) { slept += d },
		logf:  func(string, ...any) {},
	}, &slept
}

func TestBenchWaitsForAQuietMachine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wait   time.Duration
		values []float64
		slept  time.Duration
		says   string
	}{
		"quiet at once":       {time.Minute, []float64{0.1}, 0, "0.10 over the last minute after waiting 0 s, quiet"},
		"quiet after a while": {time.Minute, []float64{2, 1, 0.49}, 10 * time.Second, "0.49 over the last minute after waiting 10 s, quiet"},
		"never quiet":         {12 * time.Second, []float64{3}, 12 * time.Second, "3.00 over the last minute after waiting 12 s, not quiet"},
		"no waiting":          {0, []float64{3}, 0, "after waiting 0 s, not quiet"},
	} {
		q, slept := loads(c.wait, c.values...)
		if got := q.await(t.Context()); *slept != c.slept || !strings.Contains(got.String(), c.says) {
			t.Errorf("%s: slept %v, says %q", name, *slept, got)
		}
	}
	q, _ := loads(time.Minute)
	q.readLoad = func() (float64, bool) { return 0, false }
	if got := q.await(t.Context()); got.Average != nil || got.Quiet || !strings.Contains(got.String(), "does not tell") {
		t.Errorf("without a load: %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q, slept := loads(time.Minute, 3)
	if got := q.await(ctx); *slept != 0 || got.Quiet {
		t.Errorf("after the end: slept %v, %q", *slept, got)
	}
}
