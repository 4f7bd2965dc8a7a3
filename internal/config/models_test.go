package config

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func modelsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "models.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestReadModels: both forms of an entry are read, in the order of the file.
func TestReadModels(t *testing.T) {
	t.Parallel()
	got, err := ReadModels(modelsFile(t, "small: http://h/v1#s\nlarge: {url: https://h, key_file: /k}\na: http://h\n"))
	if err != nil || len(got) != 3 || got[0].Name != "small" || got[0].URL != "http://h/v1#s" || got[0].KeyFile != "" ||
		got[1].Name != "large" || got[1].URL != "https://h" || got[1].KeyFile != "/k" || got[2].Name != "a" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := ReadModels(modelsFile(t, "{}")); err != nil || len(got) != 0 {
		t.Errorf("no models: %v, %v", got, err)
	}
}

// TestBadModels: each fault is reported with its place, and no model is read.
func TestBadModels(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"m: {url: http://h, key: sk}": "models.yaml:1:20: m.key: is not known; allowed: key_file, url",
		"m: {key_file: /k}":           "m.url: is required",
		"m: 3":                        "m: want BASE_URL[#MODEL], or an object",
		"m: {url: 3}":                 "m.url: want a string",
		"m: http://h\nm: http://h":    "m: is given twice",
		"- m":                         "want an object of base URLs by model",
		"":                            "is empty",
		"m: {url: http://h, key_file: [a], x: 1}": "m.x: is not known",
	} {
		got, err := ReadModels(modelsFile(t, text))
		if _, ok := errors.AsType[*Error](err); !ok || got != nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// TestProviders: the bindings of the file and of the flags are combined, and each fault has its place.
func TestProviders(t *testing.T) {
	t.Parallel()
	c := Default()
	c.Providers, c.Provider = map[string]string{"a": "x", "b": "y"}, []string{"b=z", "c=w=1"}
	if got := c.Bindings(); !maps.Equal(got, map[string]string{"a": "x", "b": "z", "c": "w=1"}) {
		t.Errorf("got %v", got)
	}
	var l list
	if c.providers(&l); len(l) != 0 {
		t.Error(l)
	}
	c.Providers, c.Provider = map[string]string{"a b": "x", "c": ""}, []string{"k", "=m", "k=", "d d=m", "e=m", "e=n"}
	c.providers(&l)
	var fields []string
	for _, f := range l {
		fields = append(fields, f.Field)
	}
	if want := []string{"provider[0]", "provider[1]", "provider[2]", "provider[3]", "provider[5]", "providers[a b]", "providers[c]"}; !slices.Equal(fields, want) {
		t.Errorf("faults %v", l)
	}
	if c := Default(); c.Bindings() != nil {
		t.Error("without bindings there are some")
	}
}
