package stat

import (
	"math"
	"testing"
)

// TestOneRoundIsToldAsOne: a figure of one round has no spread that could make
// its verdict inconclusive, so the table must not look as if it had.
func TestOneRoundIsToldAsOne(t *testing.T) {
	t.Parallel()
	for rounds, want := range map[int]string{0: "", 1: "once", 2: "±0.00"} {
		if got := Of(make([]float64, rounds)).SpreadText(); got != want {
			t.Errorf("%d rounds: %q, want %q", rounds, got, want)
		}
	}
}

func TestAmounts(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0.123: "0.12", 12.34: "12.3", 234.5: "234", 1234567: "1 234 567", -1234: "-1 234", math.NaN(): "-"} {
		if got := Amount(v); got != want {
			t.Errorf("Amount(%v) = %q, want %q", v, got, want)
		}
	}
}
