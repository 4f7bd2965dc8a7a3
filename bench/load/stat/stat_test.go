package stat

import (
	"math"
	"testing"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   []float64
		want float64
	}{
		{[]float64{3}, 3},
		{[]float64{5, 1, 3}, 3},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{1, 1, 1, 1, 900}, 1},
	} {
		if got := median(c.in); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.in, got, c.want)
		}
	}
	if !math.IsNaN(median(nil)) {
		t.Error("median of nothing is a number")
	}
}

func TestMedianLeavesTheRoundsInOrder(t *testing.T) {
	t.Parallel()
	s := Of([]float64{3, 1, 2})
	if s.Median != 2 || s.Spread != 1 {
		t.Errorf("got %v ± %v, want 2 ± 1", s.Median, s.Spread)
	}
	if s.Rounds[0] != 3 || s.Rounds[1] != 1 {
		t.Errorf("rounds were reordered: %v", s.Rounds)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		bar    Bar
		rounds []float64
		want   Verdict
	}{
		{"clearly above", AtLeast(0.75), []float64{0.9, 0.92, 0.91}, Met},
		{"exactly on it", AtLeast(0.75), []float64{0.75}, Met},
		{"clearly below", AtLeast(0.75), []float64{0.5, 0.52, 0.51}, Missed},
		{"median above, rounds on both sides", AtLeast(0.75), []float64{0.6, 0.8, 0.9}, Inconclusive},
		{"median below, rounds on both sides", AtLeast(0.75), []float64{0.6, 0.7, 0.9}, Inconclusive},
		{"ceiling kept", AtMost(5), []float64{2, 2.5, 3}, Met},
		{"ceiling broken", AtMost(5), []float64{8, 9, 8.5}, Missed},
		{"ceiling, wide", AtMost(5), []float64{3, 4, 9}, Inconclusive},
		{"nothing measured", AtMost(5), nil, NotMeasured},
	} {
		if got := c.bar.Judge(Of(c.rounds)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]any{12345.678: 12350.0, 0: 0.0, math.Inf(1): nil, math.NaN(): nil} {
		if got := Number(v); got != want {
			t.Errorf("%v is %v, want %v", v, got, want)
		}
	}
}
