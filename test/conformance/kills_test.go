package main

import (
	"strings"
	"testing"
)

// TestKillsOf: 200 programs are killed in all, at each point 10 of them by client.run and 10 as worker in
// each language with an asynchronous client or without, and half as often in Go.
func TestKillsOf(t *testing.T) {
	t.Parallel()
	languages, err := languagesOf("../..", "go,python,typescript")
	if err != nil {
		t.Fatal(err)
	}
	all, rows := 0, map[string]bool{}
	for _, row := range killRows() {
		rows[row] = true
	}
	for _, lang := range languages {
		least := 10
		if lang.name == "go" {
			least = 5
		}
		made := map[string]int{}
		for _, m := range lang.modes {
			for _, k := range killsOf(killsEach(200, lang)) {
				if !rows[k.row()] {
					t.Fatalf("%v has no row", k)
				}
				made[k.victim+k.point+mode{serves: m.serves}.String()]++
				if k.victim == "program" {
					all++
				}
			}
		}
		for what, n := range made {
			if strings.HasPrefix(what, "program") && n < least {
				t.Errorf("%s: %s is made %d times", lang.name, what, n)
			}
		}
	}
	if all != 200 {
		t.Errorf("%d programs are killed", all)
	}
}

// TestEscalates: what the record has to say of each kill.
func TestEscalates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kill      kill
		escalates bool
		asked     []int
	}{
		{kill{"call", "program", "escalate"}, false, []int{1}},
		{kill{"effect", "program", "escalate"}, true, []int{1}},
		{kill{"answer", "both", "escalate"}, true, []int{1}},
		{kill{"effect", "both", "reconcile"}, false, []int{1}},
		{kill{"stream/2", "program", "reconcile"}, false, []int{2}},
		{kill{"stream/2", "sidecar", "reconcile"}, false, []int{1, 2}},
	} {
		var requests []int
		for times := range 4 {
			if c.kill.allowsRequests(times) {
				requests = append(requests, times)
			}
		}
		if c.kill.expectsEscalation() != c.escalates || len(requests) != len(c.asked) || requests[0] != c.asked[0] {
			t.Errorf("%v: escalates %t, asked %v", c.kill, c.kill.expectsEscalation(), requests)
		}
	}
}
