package dialogue

import (
	"context"
	"testing"
)

// TestTooFewRounds: both ends of a turn are measured, so it has to have two.
func TestTooFewRounds(t *testing.T) {
	t.Parallel()
	if got, err := Run(context.Background(), nil, Job{Rounds: 2 * few, Samples: 1, Pairs: 1, Bytes: 1}); err == nil {
		t.Errorf("%+v", got)
	}
	if a, b := words(99), words(99); len(a) != 99 || a == b {
		t.Errorf("%q and %q", a, b)
	}
}
