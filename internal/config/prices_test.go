package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func pricesFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "prices.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadPrices(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"small: {input: 0.15, cached: 0.075, output: 0.6}\nlocal/llama: {input: 0, output: 0, reasoning: 3}\n",
		`{"small": {"input": 0.15, "cached": 0.075, "output": 6e-1}, "local/llama": {"input": 0, "output": 0, "reasoning": 3}}`,
	} {
		got, err := ReadPrices(pricesFile(t, text))
		if err != nil || len(got) != 2 {
			t.Fatalf("%v, %v", got, err)
		}
		if p := got["small"]; p.Input != 0.15 || p.Output != 0.6 || p.Cached == nil || *p.Cached != 0.075 || p.Reasoning != nil {
			t.Errorf("small is %+v", p)
		}
		if p := got["local/llama"]; p.Input != 0 || p.Output != 0 || p.Cached != nil || *p.Reasoning != 3 {
			t.Errorf("local/llama is %+v", p)
		}
	}
	if got, err := ReadPrices(pricesFile(t, "{}")); err != nil || len(got) != 0 {
		t.Errorf("no prices: %v, %v", got, err)
	}
	// The file is still being written: the prices in force stay.
	if got, err := ReadPrices(pricesFile(t, "\n")); err == nil {
		t.Errorf("an empty file: %v", got)
	}
}

// TestBadPrices: each fault is reported with its place, and no price is read.
func TestBadPrices(t *testing.T) {
	t.Parallel()
	for text, says := range map[string][]string{
		"m: {input: 1, output: 1, outptu: 2}":                {"prices.yaml:1:26: m.outptu: is not known; allowed: cached, input, output, reasoning; did you mean output?"},
		"m: {input: -0.01, output: 1}":                       {"m.input: is -0.01, want a number"},
		"m: {input: .inf, output: .nan}":                     {".inf"},
		"m: {input: 1, output: 1000001}":                     {"m.output: is 1000001, want a number of US dollars from 0 to 1000000"},
		"m: {input: '1', output: true}":                      {"m.input: is \"1\",", "m.output: is true"},
		"m: {output: 1}":                                     {"m.input: is required"},
		"m: 3":                                               {"m: want an object of cached, input, output, reasoning"},
		"m: null":                                            {"m: want an object"},
		"currency: EUR\nm: {input: 1, output: 1}":            {"currency: want an object"},
		"'': {input: 1, output: 1}":                          {"a model's name has 1 to 256 bytes"},
		"m: {input: 1, output: 1}\nm: {input: 2, output: 2}": {"prices.yaml:2:1: m: is given twice"},
		"- m":         {"prices.yaml"},
		"m: {input: ": {"prices.yaml"},
	} {
		got, err := ReadPrices(pricesFile(t, text))
		var faults *Error
		if !errors.As(err, &faults) || got != nil {
			t.Errorf("%q: %v, %v", text, got, err)
			continue
		}
		for _, word := range says {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q: %v does not say %q", text, err, word)
			}
		}
		if !strings.Contains(err.Error(), "prices.yaml") {
			t.Errorf("%q: %v does not name the file", text, err)
		}
	}
}
