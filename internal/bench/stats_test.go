package bench

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
	s := NewStat([]float64{3, 1, 2})
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
		{"clearly above", atLeast(0.75), []float64{0.9, 0.92, 0.91}, Reached},
		{"exactly on it", atLeast(0.75), []float64{0.75}, Reached},
		{"clearly below", atLeast(0.75), []float64{0.5, 0.52, 0.51}, Missed},
		{"median above, rounds on both sides", atLeast(0.75), []float64{0.6, 0.8, 0.9}, Inconclusive},
		{"median below, rounds on both sides", atLeast(0.75), []float64{0.6, 0.7, 0.9}, Inconclusive},
		{"ceiling kept", atMost(5), []float64{2, 2.5, 3}, Reached},
		{"ceiling broken", atMost(5), []float64{8, 9, 8.5}, Missed},
		{"ceiling, wide", atMost(5), []float64{3, 4, 9}, Inconclusive},
		{"nothing measured", atMost(5), nil, NotMeasured},
	} {
		if got := c.bar.Judge(NewStat(c.rounds)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
