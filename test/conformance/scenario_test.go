package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestScenarios reads every scenario: each verb is known, each says what it shows.
func TestScenarios(t *testing.T) {
	t.Parallel()
	all, err := loadScenarios("../..", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		expects := false
		for _, st := range s.steps {
			expects = expects || st.expect != nil || st.fault != nil || st.verb == "await"
		}
		if !expects {
			t.Errorf("%s expects nothing", s.Name)
		}
		if s.document == "" {
			t.Errorf("%s has no pack", s.Name)
		}
	}
}

func TestBadScenarios(t *testing.T) {
	t.Parallel()
	head := "about: x\nsource: y\npack: {workflow: {entry: a, states: {a: }}}\n"
	for _, c := range []struct{ text, fault string }{
		{"source: y\npack: {}\n", "about and source"},
		{"about: x\nsource: y\n", "pack is required"},
		{head + "via: pigeon\n", "via"},
		{head + "languages: [go]\n", "because"},
		{head + "only: worker\n", "because"},
		{head + "only: tree\nbecause: z\n", "only: worker or run"},
		{head + "steps:\n  - info:\n    only: run\n", "only and because"},
		{head + "steps:\n  - info:\n    only: tree\n    because: z\n", "only: worker or run"},
		{head + "speed: 3\n", "speed"},
		{head + "steps:\n  - dance:\n", "dance is no verb"},
		{head + "steps:\n  - info:\n    cancel:\n", "two verbs"},
		{head + "steps:\n  - expect: 1\n", "no verb"},
		{head + "steps:\n  - info: 7\n", "a mapping or a name"},
		{"about: x\nsource: y\npack: no-such-file.yaml\n", "no-such-file"},
		{"about: x\nsource: y\npack: {workflow: {}}\n", "pack.workflow.states"},
	} {
		file := filepath.Join(t.TempDir(), "bad.yaml")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := loadScenario("../..", file, "bad"); err == nil || !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%q: %v, want %q", c.text, err, c.fault)
		}
	}
}
