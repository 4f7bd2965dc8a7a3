package stat

import (
	"encoding/json"
	"math"
	"slices"
)

// Stat is one figure over the rounds that measured it.
type Stat struct {
	// Median of Rounds.
	Median float64 `json:"median"`
	// Spread is half the distance between the smallest and the largest round:
	// the figure is Median ± Spread.
	Spread float64   `json:"spread"`
	Rounds []float64 `json:"rounds"`
}

// Of summarises rounds in the order in which they were measured. Without
// rounds Median and Spread are NaN.
func Of(rounds []float64) Stat {
	if len(rounds) == 0 {
		return Stat{Median: math.NaN(), Spread: math.NaN()}
	}
	return Stat{
		Median: median(rounds),
		Spread: (slices.Max(rounds) - slices.Min(rounds)) / 2,
		Rounds: rounds,
	}
}

// median of the middle two where their number is even; NaN of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// Bar is what a figure has to reach.
type Bar struct {
	Limit float64 `json:"limit"`
	// AtMost: the figure must not be above the limit; else not below.
	AtMost bool `json:"at_most"`
}

// AtLeast is a bar that a figure must not be below.
func AtLeast(limit float64) Bar { return Bar{Limit: limit} }

// AtMost is one that it must not be above.
func AtMost(limit float64) Bar { return Bar{Limit: limit, AtMost: true} }

// Verdict says how a figure stands to its bar.
type Verdict string

// The verdicts. Inconclusive: the rounds differ by more than the margin, that
// is the distance between the median and the bar, so that another run of the
// bench could say the opposite.
const (
	Met          Verdict = "reached"
	Missed       Verdict = "missed"
	Inconclusive Verdict = "inconclusive"
	// NotMeasured: no round gave a number.
	NotMeasured Verdict = "not measured"
)

// Judge compares a figure with its bar.
func (b Bar) Judge(s Stat) Verdict {
	if math.IsNaN(s.Median) {
		return NotMeasured
	}
	margin := s.Median - b.Limit
	if b.AtMost {
		margin = -margin
	}
	switch {
	case s.Spread > math.Abs(margin):
		return Inconclusive
	case margin < 0:
		return Missed
	default:
		return Met
	}
}

// MarshalJSON writes a figure that was not measured with nulls.
func (s Stat) MarshalJSON() ([]byte, error) {
	return json.Marshal(s.Fields())
}

// Fields are as JSON can hold them.
func (s Stat) Fields() map[string]any {
	rounds := make([]any, 0, len(s.Rounds))
	for _, v := range s.Rounds {
		rounds = append(rounds, Number(v))
	}
	return map[string]any{"median": Number(s.Median), "spread": Number(s.Spread), "rounds": rounds}
}

// Number rounds to four significant digits, enough for any figure here; NaN and
// infinities, which JSON lacks, become null.
func Number(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	if v == 0 {
		return 0.0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}
