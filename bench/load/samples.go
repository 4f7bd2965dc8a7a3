package load

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Samples holds what the rounds measured: per metric one value for each round,
// in the order of the rounds. Index i of two metrics is the same round.
type Samples map[string][]float64

// add appends one round's values.
func (s Samples) add(round map[string]float64) {
	for name, value := range round {
		s[name] = append(s[name], value)
	}
}

// merge takes over another set; the names must differ.
func (s Samples) merge(other Samples) { maps.Copy(s, other) }

// ratio divides two metrics round by round. Without as many rounds of the one
// as of the other there is no ratio.
func (s Samples) ratio(num, den string) []float64 {
	above, below := s[num], s[den]
	if len(above) != len(below) {
		return nil
	}
	out := make([]float64, len(above))
	for i := range above {
		out[i] = above[i] / below[i]
	}
	return out
}

// difference subtracts the second metric from the first one, round by round.
func (s Samples) difference(a, b string) []float64 {
	if len(s[a]) != len(s[b]) {
		return nil
	}
	out := slices.Clone(s[a])
	for i, v := range s[b] {
		out[i] -= v
	}
	return out
}

// sum adds two metrics round by round.
func (s Samples) sum(a, b string) []float64 {
	if len(s[a]) != len(s[b]) {
		return nil
	}
	out := slices.Clone(s[a])
	for i, v := range s[b] {
		out[i] += v
	}
	return out
}

// arm measures some metrics once; arms of one group are compared, so every
// round runs each of them.
type arm struct {
	name string
	run  func(round int) (map[string]float64, error)
}

// interleave runs every arm once per round and turns the order round in every
// second one, so that no arm always follows the same other. A failing arm ends
// the group: half of a comparison is worth nothing.
func interleave(rounds int, arms []arm, progress func(string)) (Samples, error) {
	all := Samples{}
	for round := range rounds {
		order := slices.Clone(arms)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, a := range order {
			progress(fmt.Sprintf("round %d/%d %s", round+1, rounds, a.name))
			values, err := a.run(round)
			if err != nil {
				return all, fmt.Errorf("%s, round %d: %w", a.name, round+1, err)
			}
			all.add(values)
		}
	}
	return all, nil
}

// micros is a duration in microseconds, the unit of every latency figure.
func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// millis is a duration in milliseconds.
func millis(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
