package config

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// TestRulesOfRetention: rules of the file come first, those of flags and environment are
// the same in one line, and what is printed reads back.
func TestRulesOfRetention(t *testing.T) {
	t.Parallel()
	path := writeFile(t, `
data: d
namespace: [red]
retention:
- {label: {legal: hold}, keep: true}
- name: failures
  namespace: red
  status: [FAILED, CANCELLED]
  label: {team: core, tier: a=b}
  older_than: 720h
  keep_newest: 1000
  max_bytes: 10GiB
  archive: /srv/archive
`)
	line := "name=failures namespace=red status=FAILED|CANCELLED label=team=core label=tier=a=b older_than=720h keep_newest=1000 max_bytes=10GiB archive=/srv/archive"
	file, err := Load(flagSet(t, "--config", path), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	want := []Retention{{Name: "retention[0]", Label: map[string]string{"legal": "hold"}, Keep: true}, {
		Name: "failures", Namespace: "red", Status: []string{"FAILED", "CANCELLED"}, Label: map[string]string{"team": "core", "tier": "a=b"},
		OlderThan: 720 * time.Hour, KeepNewest: 1000, MaxBytes: 10 << 30, Archive: "/srv/archive",
	}}
	if got := file.Rules(); !reflect.DeepEqual(got, want) {
		t.Errorf("the file's: %+v", got)
	}
	flags, err := Load(flagSet(t, "--data=d", "--namespace=red", "--retain=label=legal=hold keep=true", "--retain", line), noEnv)
	if err != nil || !reflect.DeepEqual(flags.Rules(), want) {
		t.Errorf("the flags': %+v, %v", flags.Rules(), err)
	}
	vars, err := Load(flagSet(t, "--data=d", "--namespace=red"), env(map[string]string{"PAWL_RETAIN": "label=legal=hold keep=true," + line}))
	if err != nil || !reflect.DeepEqual(vars.Rules(), want) {
		t.Errorf("the environment's: %+v, %v", vars.Rules(), err)
	}
	text, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Load(flagSet(t, "--config", writeFile(t, string(text))), noEnv)
	if err != nil || !reflect.DeepEqual(again.Rules(), want) {
		t.Errorf("printed: %+v, %v", again.Rules(), err)
	}
	if text, err := json.Marshal(file); err != nil || !strings.Contains(string(text), `"older_than":"720h0m0s"`) || !strings.Contains(string(text), `"retention_every":"10m0s"`) {
		t.Errorf("as JSON: %s, %v", text, err)
	}
}

// TestFaultsOfRetention: each bad value is named with its field and what would be taken.
func TestFaultsOfRetention(t *testing.T) {
	t.Parallel()
	one := func(r Retention) func(*Config) { return func(c *Config) { c.Retention = []Retention{r} } }
	for name, tc := range map[string]struct {
		change func(*Config)
		field  string
		says   string
	}{
		"says nothing":        {one(Retention{Status: []string{"FAILED"}}), "retention[0]", "older_than, keep_newest or max_bytes"},
		"keeps and does not":  {one(Retention{Keep: true, KeepNewest: 1}), "retention[0].keep", "for ever"},
		"keeps and archives":  {one(Retention{Keep: true, Archive: "/a"}), "retention[0].keep", "for ever"},
		"status":              {one(Retention{Status: []string{"RUNNING"}, KeepNewest: 1}), "retention[0].status", "COMPLETED, BUDGET_EXHAUSTED, ESCALATED, FAILED, CANCELLED"},
		"namespace":           {one(Retention{Namespace: "red", KeepNewest: 1}), "retention[0].namespace", "none of default"},
		"label":               {one(Retention{Label: map[string]string{"": "x"}, KeepNewest: 1}), "retention[0].label", "empty key"},
		"too short":           {one(Retention{OlderThan: time.Millisecond}), "retention[0].older_than", "1s to"},
		"negative age":        {one(Retention{OlderThan: -time.Hour}), "retention[0].older_than", "1s to"},
		"negative number":     {one(Retention{KeepNewest: -1}), "retention[0].keep_newest", "less than 1"},
		"inside the data":     {one(Retention{KeepNewest: 1, Archive: "d/archive"}), "retention[0].archive", "data directory"},
		"the data":            {one(Retention{KeepNewest: 1, Archive: "d"}), "retention[0].archive", "data directory"},
		"name":                {one(Retention{KeepNewest: 1, Name: "a\nb"}), "retention[0].name", "ASCII"},
		"names twice":         {func(c *Config) { c.Retain = []string{"name=a keep=true", "name=a keep=true"} }, "retention[1].name", "given twice"},
		"too many":            {func(c *Config) { c.Retain = slicesOf("keep=true", 101) }, "retention", "at most 100"},
		"word":                {func(c *Config) { c.Retain = []string{"older=1h"} }, "retain[0]", "older_than="},
		"duration":            {func(c *Config) { c.Retain = []string{"older_than=1d"} }, "retain[0]", "1d"},
		"size":                {func(c *Config) { c.Retain = []string{"max_bytes=1GB"} }, "retain[0]", "KiB, MiB or GiB"},
		"line's label":        {func(c *Config) { c.Retain = []string{"label=team keep=true"} }, "retain[0]", "KEY=VALUE"},
		"pause":               {func(c *Config) { c.RetentionEvery = time.Millisecond }, "retention_every", "1s to 24h"},
		"grace":               {func(c *Config) { c.RetentionGrace = time.Millisecond }, "retention_grace", "1s to"},
		"age of deleted runs": {func(c *Config) { c.DeletedRunRetention = time.Millisecond }, "retention_deleted", "1s to"},
		"age of consumers":    {func(c *Config) { c.ConsumerRetention = -1 }, "retention_consumers", "1s to"},
		"age of letters":      {func(c *Config) { c.DeadLetterRetention = 1 }, "retention_dead_letters", "1s to"},
		"letters":             {func(c *Config) { c.Limits.DeadLetters = -1 }, "limits.dead_letters", "0 to"},
	} {
		c := Default()
		c.Data = "d"
		tc.change(&c)
		var e *Error
		if !errors.As(c.Validate(), &e) || len(e.Faults) != 1 {
			t.Errorf("%s: want one fault: %v", name, c.Validate())
			continue
		}
		if e.Faults[0].Field != tc.field || !strings.Contains(e.Faults[0].Message, tc.says) {
			t.Errorf("%s: fault %+v, want %s with %q", name, e.Faults[0], tc.field, tc.says)
		}
	}
}

func slicesOf(text string, n int) (out []string) {
	for range n {
		out = append(out, text)
	}
	return out
}
