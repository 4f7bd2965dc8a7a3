package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Retention is one retention rule: which ended runs it selects, and how long they are kept. The first rule
// that selects a run decides.
type Retention struct {
	// Name is shown in logs, metrics and the audit; "" = retention[N].
	Name string `yaml:"name,omitempty" json:"name,omitempty"`
	// Namespace, Status and Label select runs: of one namespace, in one of the statuses, with
	// all of the labels; empty = all.
	Namespace string            `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	Status    []string          `yaml:"status,omitempty" json:"status,omitempty"`
	Label     map[string]string `yaml:"label,omitempty" json:"label,omitempty"`
	// Keep keeps the selected runs for ever. Without it, at least one of OlderThan, KeepNewest and MaxBytes is set. A
	// run that exceeds any one of them is deleted.
	Keep bool `yaml:"keep,omitempty" json:"keep,omitempty"`
	// OlderThan is how long a run is kept after its end.
	OlderThan time.Duration `yaml:"older_than,omitempty" json:"-"`
	// KeepNewest is how many runs the rule keeps in each namespace. It keeps those that began last.
	KeepNewest int `yaml:"keep_newest,omitempty" json:"keep_newest,omitempty"`
	// MaxBytes is the total size of the kept runs of a namespace, without their blobs. If it is exceeded, the runs
	// that began first are deleted.
	MaxBytes Bytes `yaml:"max_bytes,omitempty" json:"max_bytes,omitempty"`
	// Archive is the directory into which a run is written as a file before it is deleted; "" = no file is written.
	Archive string `yaml:"archive,omitempty" json:"archive,omitempty"`
}

// MarshalJSON writes the duration as text, as in the file.
func (r Retention) MarshalJSON() ([]byte, error) {
	type plain Retention
	older := ""
	if r.OlderThan != 0 {
		older = r.OlderThan.String()
	}
	return json.Marshal(struct {
		plain
		OlderThan string `json:"older_than,omitempty"`
	}{plain(r), older})
}

// maxRules bounds the rules of one sidecar.
const maxRules = 100

// endedStatuses are the statuses of runs that have ended.
var endedStatuses = []string{"COMPLETED", "BUDGET_EXHAUSTED", "ESCALATED", "FAILED", "CANCELLED"}

// Rules returns the rules of the file and then those of --retain, each with its name.
func (c *Config) Rules() []Retention {
	rules, _ := c.rules()
	return rules
}

// rules returns all retention rules, each with a name, and a fault for each rule of --retain that cannot be read.
func (c *Config) rules() (rules []Retention, faults []Fault) {
	rules = slices.Clone(c.Retention)
	for i, text := range c.Retain {
		rule, err := readRule(text)
		if err != nil {
			faults = append(faults, Fault{Field: fmt.Sprintf("retain[%d]", i), Message: fmt.Sprintf("%q: %s", text, err)})
			continue
		}
		rules = append(rules, rule)
	}
	for i := range rules {
		if rules[i].Name == "" {
			rules[i].Name = fmt.Sprintf("retention[%d]", i)
		}
	}
	return rules, faults
}

// ruleWords are the names that a rule in one line (--retain) may contain, each with the function that reads its
// value.
var ruleWords = map[string]func(r *Retention, value string) error{
	"name":      func(r *Retention, v string) error { r.Name = v; return nil },
	"namespace": func(r *Retention, v string) error { r.Namespace = v; return nil },
	"status":    func(r *Retention, v string) error { r.Status = append(r.Status, strings.Split(v, "|")...); return nil },
	"keep": func(r *Retention, v string) (err error) {
		r.Keep, err = strconv.ParseBool(v)
		return err
	},
	"older_than": func(r *Retention, v string) (err error) {
		r.OlderThan, err = time.ParseDuration(v)
		return err
	},
	"keep_newest": func(r *Retention, v string) (err error) {
		r.KeepNewest, err = strconv.Atoi(v)
		return err
	},
	"max_bytes": func(r *Retention, v string) error { return r.MaxBytes.Set(v) },
	"archive":   func(r *Retention, v string) error { r.Archive = v; return nil },
	"label": func(r *Retention, v string) error {
		key, value, ok := strings.Cut(v, "=")
		if !ok || key == "" {
			return fmt.Errorf("label %q is no KEY=VALUE", v)
		}
		if r.Label == nil {
			r.Label = map[string]string{}
		}
		r.Label[key] = value
		return nil
	},
}

// readRule reads a rule in one line (--retain): NAME=VALUE, separated by spaces.
func readRule(text string) (r Retention, err error) {
	for word := range strings.FieldsSeq(text) {
		name, value, ok := strings.Cut(word, "=")
		read := ruleWords[name]
		if !ok || read == nil {
			return r, fmt.Errorf("%q is none of %s", word, strings.Join(slices.Sorted(maps.Keys(ruleWords)), "=, ")+"=")
		}
		if err := read(&r, value); err != nil {
			return r, err
		}
	}
	return r, nil
}

// retention checks the retention rules, and the settings that say how long other data is kept.
func (c *Config) retention(l *list) {
	rules, faults := c.rules()
	*l = append(*l, faults...)
	if len(rules) > maxRules {
		l.add("retention", "there are %d, at most %d", len(rules), maxRules)
	}
	seen := map[string]bool{}
	for i := range rules {
		r := &rules[i]
		field := fmt.Sprintf("retention[%d]", i)
		if seen[r.Name] || len(r.Name) > 63 || strings.ContainsFunc(r.Name, func(c rune) bool { return c < ' ' || c > '~' }) {
			l.add(field+".name", "%q is given twice, or no name: want at most 63 letters of ASCII", r.Name)
		}
		seen[r.Name] = true
		c.selects(l, field, r)
		c.keeps(l, field, r)
	}
	between(l, "retention_every", c.RetentionEvery, time.Second, 24*time.Hour)
	between(l, "retention_grace", c.RetentionGrace, time.Second, longestRun)
	age(l, "retention_deleted", c.DeletedRunRetention)
	age(l, "retention_consumers", c.ConsumerRetention)
	age(l, "retention_dead_letters", c.DeadLetterRetention)
}

// age checks a setting that says how long data is kept; 0 = for ever.
func age(l *list, field string, got time.Duration) {
	if got != 0 {
		between(l, field, got, time.Second, longestRun)
	}
}

// selects checks which runs a rule selects.
func (c *Config) selects(l *list, field string, r *Retention) {
	if served := c.Served(); r.Namespace != "" && !slices.Contains(served, r.Namespace) {
		l.add(field+".namespace", "%q is none of %s", r.Namespace, strings.Join(served, ", "))
	}
	for _, status := range r.Status {
		oneOf(l, field+".status", status, endedStatuses...)
	}
	if _, empty := r.Label[""]; empty {
		l.add(field+".label", "has an empty key")
	}
}

// keeps checks the fields of a rule that set how long runs are kept.
func (c *Config) keeps(l *list, field string, r *Retention) {
	bounded := r.OlderThan != 0 || r.KeepNewest != 0 || r.MaxBytes != 0
	switch {
	case r.Keep && (bounded || r.Archive != ""):
		l.add(field+".keep", "keeps for ever: older_than, keep_newest, max_bytes and archive mean nothing beside it")
	case !r.Keep && !bounded:
		l.add(field, "says not how long: set older_than, keep_newest or max_bytes, or keep: true")
	}
	age(l, field+".older_than", r.OlderThan)
	if r.KeepNewest < 0 {
		l.add(field+".keep_newest", "%d is less than 1", r.KeepNewest)
	}
	data, err := filepath.Abs(c.Data)
	archive, err2 := filepath.Abs(r.Archive)
	if r.Archive != "" && c.Data != "" && err == nil && err2 == nil && (archive == data || strings.HasPrefix(archive, data+string(filepath.Separator))) {
		l.add(field+".archive", "%q lies in the data directory: name one of its own", r.Archive)
	}
}
