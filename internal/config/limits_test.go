package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func limitsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadCallLimits(t *testing.T) {
	t.Parallel()
	got, err := ReadCallLimits(limitsFile(t, `tenant: customer
limits:
  - id: openai
    key: 'model.startsWith("gpt") ? model : ""'
    concurrent: 8
    per_minute: 60
    tokens_per_minute: 30000
    weights: {acme: 3}
    provider: true
  - {id: mail, key: 'tool == "send_mail" ? tool : ""', concurrent: 1}
`))
	if err != nil || got.Tenant != "customer" || len(got.List) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	first := got.List[0]
	if first.ID != "openai" || first.Concurrent != 8 || first.PerMinute != 60 || first.TokensPerMinute != 30000 || first.Weights["acme"] != 3 || !first.Provider {
		t.Errorf("%+v", first)
	}
	if !strings.Contains(first.At, "limits.yaml:4:5: limits[0].key") {
		t.Errorf("the key is at %s", first.At)
	}
	if got, err := ReadCallLimits(limitsFile(t, "{}")); err != nil || len(got.List) != 0 || got.Tenant != "tenant" {
		t.Errorf("no limits: %v, %v", got, err)
	}
	if got, err := ReadCallLimits(limitsFile(t, "\n")); err == nil {
		t.Errorf("an empty file: %v", got)
	}
}

// TestBadCallLimits: each fault is reported with its place, and no limit is read.
func TestBadCallLimits(t *testing.T) {
	t.Parallel()
	entry := func(rest string) string { return "limits:\n- {id: a, key: model" + rest + "}" }
	for text, says := range map[string]string{
		"- m":                      "want an object of limits, tenant",
		"limit: []":                "limits.yaml:1:1: limit: is not known; allowed: limits, tenant",
		"tenant: 3":                "tenant: is 3, want a text",
		"limits: {}":               "limits.yaml:1:1: limits: is {}, want a list",
		"limits: [3]":              "limits[0]: want an object of concurrent, id, key",
		entry(""):                  "limits[0]: limits nothing",
		entry(", per_minute: 0"):   "limits.yaml:2:23: limits[0].per_minute: is 0, want a whole number from 1 to 1000000000",
		entry(", per_minute: 1.5"): "is 1.5, want",
		entry(", per_minute: -1"):  "is -1, want",
		entry(", per_minute: no"):  "want a whole number",
		entry(", per_minut: 3"):    "limits[0].per_minut: is not known; allowed: concurrent, id, key, per_minute, provider, tokens_per_minute, weights; did you mean per_minute?",
		entry(", concurrent: 1, weights: {x: 1001}"):                                                 "limits[0].weights.x: is 1001, want a whole number from 1 to 1000",
		entry(", concurrent: 1, weights: 3"):                                                         "limits[0].weights: want an object, by name",
		entry(", concurrent: 1, provider: 3"):                                                        "want true or false",
		"limits: [{key: model, concurrent: 1}]":                                                      "limits[0].id: is required",
		"limits: [{id: A b, key: model, concurrent: 1}]":                                             "limits[0].id: want 1 to 64 of",
		"limits: [{id: a, concurrent: 1}]":                                                           "limits[0].key: is required",
		"limits: [{id: a, key: 3, concurrent: 1}]":                                                   "limits[0].key: is 3, want a text",
		"limits: [{id: a, key: model, concurrent: 1, id: b}]":                                        "is given twice",
		"limits: [{id: a, key: model, concurrent: 1}, {id: a, key: model, concurrent: 2}]":           `limits[1].id: "a" is the id of another entry too`,
		"limits: [{id: a, key: model, concurrent: 1}, {id: b, key: model, tokens_per_minute: 1e10}]": "limits[1].tokens_per_minute: is 10000000000, want",
	} {
		got, err := ReadCallLimits(limitsFile(t, text))
		var faults *Error
		if !errors.As(err, &faults) || got.List != nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, %v; want %q", text, got, err, says)
		}
	}
}
