package main

import (
	"reflect"
	"slices"
	"testing"
)

// TestModes: a scenario whose processes execute turns is played in every mode of every language, but
// for what it says with a reason; no other one is played twice.
func TestModes(t *testing.T) {
	t.Parallel()
	languages, err := languagesOf("../..", "go,python,typescript")
	if err != nil {
		t.Fatal(err)
	}
	all, err := loadScenarios("../..", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		for _, lang := range languages {
			for _, m := range lang.modes {
				said := s.Because != "" && (len(s.Languages) > 0 && !slices.Contains(s.Languages, lang.name) || s.Only != "" && m.serves != (s.Only == onlyRun))
				want := !said && (s.executesTurns() || !m.serves)
				if got := s.applies(lang, m); got != want {
					t.Errorf("%s in %s %s: played %t, want %t", s.Name, lang.name, m, got, want)
				}
			}
		}
		if s.Only != "" && !s.executesTurns() {
			t.Errorf("%s executes no turns, and is only for %s", s.Name, s.Only)
		}
	}
	want := []int{2, 4, 2}
	for i, lang := range languages {
		if len(lang.modes) != want[i] {
			t.Errorf("%s has the modes %v", lang.name, lang.modes)
		}
	}
}

func TestNamed(t *testing.T) {
	t.Parallel()
	want := parseJSON(t, `{"a": [{"worker": {"$worker": "heir"}}]}`)
	for m, text := range map[mode]string{
		{}:             `{"a": [{"worker": "heir"}]}`,
		{serves: true}: `{"a": [{"worker": {"$set": true}}]}`,
	} {
		if got := m.named(want); !reflect.DeepEqual(got, parseJSON(t, text)) {
			t.Errorf("%s: %v", m, got)
		}
	}
}
