package load

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestInterleaveTurnsTheOrderRound(t *testing.T) {
	t.Parallel()
	var order []string
	note := func(name string, value float64) arm {
		return arm{name, func(round int) (map[string]float64, error) {
			order = append(order, name)
			return map[string]float64{name: value + float64(round)}, nil
		}}
	}
	got, err := interleave(3, []arm{note("a", 10), note("b", 20)}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "b", "a", "a", "b"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	if !slices.Equal(got["a"], []float64{10, 11, 12}) || !slices.Equal(got["b"], []float64{20, 21, 22}) {
		t.Errorf("samples %v", got)
	}
}

func TestInterleaveNamesTheArmThatFailed(t *testing.T) {
	t.Parallel()
	_, err := interleave(2, []arm{{"sick", func(round int) (map[string]float64, error) {
		if round == 1 {
			return nil, errors.New("no disk")
		}
		return map[string]float64{"x": 1}, nil
	}}}, func(string) {})
	if err == nil || !strings.Contains(err.Error(), "sick, round 2: no disk") {
		t.Errorf("got %v", err)
	}
}

func TestRatioNeedsBothHalvesOfEveryRound(t *testing.T) {
	t.Parallel()
	s := Samples{"a": {1, 2}, "b": {2, 4}, "c": {1}}
	if got := s.ratio("a", "b"); !slices.Equal(got, []float64{0.5, 0.5}) {
		t.Errorf("a/b = %v", got)
	}
	if s.ratio("a", "c") != nil || s.sum("a", "c") != nil {
		t.Error("rounds of different number were combined")
	}
	if got := s.sum("a", "b"); !slices.Equal(got, []float64{3, 6}) || s["a"][0] != 1 {
		t.Errorf("a+b = %v, a = %v", got, s["a"])
	}
}
