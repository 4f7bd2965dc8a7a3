package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// scenario is one file of test/conformance/scenarios.
type scenario struct {
	// Name is that of the file, without its ending.
	Name string `yaml:"-"`
	// About says in a sentence or two what must hold.
	About string `yaml:"about"`
	// Source names what says so.
	Source string `yaml:"source"`
	// Languages that it applies to. Default: all.
	Languages []string `yaml:"languages"`
	// Only says in which kind of mode it is played: worker or run. Default: in both.
	Only string `yaml:"only"`
	// Why it does not apply to the others; required with Languages and with Only.
	Because string `yaml:"because"`
	// Flags of a sidecar of its own. Default: none, it shares its column's.
	Flags []string `yaml:"flags"`
	// Files are written beside the store of that sidecar; {dir} in a flag is where.
	Files map[string]string `yaml:"files"`
	// Scopes of the clients' token, on a sidecar of its own that asks for one. Default:
	// none is asked for, which is every scope but admin.
	Scopes []string `yaml:"scopes"`
	// Principals are further callers of that sidecar, each with its own token. The values are their scopes.
	Principals map[string][]string `yaml:"principals"`
	// Via is how the clients reach the sidecar: directly, through a relay whose
	// connections can be cut, or through one that plays a newer server.
	Via string `yaml:"via"`
	// Pack is a document in short (see pack.go) or a file name below testdata/packs.
	Pack any `yaml:"pack"`
	// Lines are the steps as they are written, made in order.
	Lines []map[string]any `yaml:"steps"`

	steps []step
	// document is the pack as JSON or YAML, id its id, filename what tells which.
	document, id, filename string
}

const (
	viaRelay = "relay"
	viaNewer = "newer"
)

// loadScenarios reads every scenario whose name matches.
func loadScenarios(root, only string) ([]*scenario, error) {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(root, "test", "conformance", "scenarios", "*.yaml"))
	if err != nil {
		return nil, err
	}
	var all []*scenario
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if !pattern.MatchString(name) {
			continue
		}
		s, err := loadScenario(root, file, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, s)
	}
	return all, nil
}

func loadScenario(root, file, name string) (*scenario, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s := scenario{Name: name}
	if err := yaml.UnmarshalWithOptions(content, &s, yaml.Strict()); err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	for i, fields := range s.Lines {
		parsed, err := parseStep(fields)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i+1, err)
		}
		s.steps = append(s.steps, parsed)
	}
	return &s, s.readPack(root)
}

// check refuses what is missing or not known.
func (s *scenario) check() error {
	switch {
	case s.About == "" || s.Source == "":
		return fmt.Errorf("about and source are required")
	case len(s.Principals) > 0 && len(s.Scopes) == 0:
		return fmt.Errorf("scopes are required with principals")
	case s.Pack == nil:
		return fmt.Errorf("pack is required")
	case !slices.Contains([]string{"", viaRelay, viaNewer}, s.Via):
		return fmt.Errorf("via: %s or %s, not %q", viaRelay, viaNewer, s.Via)
	case (len(s.Languages) > 0 || s.Only != "") != (s.Because != ""):
		return fmt.Errorf("languages, or only, and because belong together")
	case !slices.Contains([]string{"", onlyWorker, onlyRun}, s.Only):
		return fmt.Errorf("only: %s or %s, not %q", onlyWorker, onlyRun, s.Only)
	}
	return nil
}

// appliesTo tells whether a language has this scenario.
func (s *scenario) appliesTo(lang string) bool {
	return len(s.Languages) == 0 || slices.Contains(s.Languages, lang)
}

// toJSONForm gives a value of YAML the form of one of JSON.
func toJSONForm(v any) (any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out any
	return out, json.Unmarshal(text, &out)
}
