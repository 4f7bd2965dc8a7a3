package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/test/conformance/endpoint"
)

// known are the cases that an executor is known to fail, by name, and why: a line
// "CASE: why" each of test/conformance/endpoint/failing/LANGUAGE.txt. One that passes is a fault too, so
// that the line is deleted with the fault.
type known map[string]string

func readKnown(root, lang string) (known, error) {
	content, err := os.ReadFile(filepath.Join(root, "test", "conformance", "endpoint", "failing", lang+".txt"))
	if err != nil {
		return nil, err
	}
	rows := known{}
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, why, ok := strings.Cut(line, ": ")
		if !ok || rows[name] != "" {
			return nil, fmt.Errorf("failing/%s.txt: %q: want CASE: WHY, each case once", lang, line)
		}
		rows[name] = why
	}
	return rows, nil
}

// newResult is the result of a case: one that fails as it is known to is no fault.
func (k known) newResult(name string, err error) result {
	why, listed := k[name]
	switch {
	case listed && err == nil:
		return result{err: fmt.Errorf("it is known to fail (%s) and passes: delete its line in test/conformance/endpoint/failing", why)}
	case listed:
		return result{passed: true, word: "known"}
	}
	return result{passed: err == nil, err: err}
}

// unknownCases returns the rows that name no case.
func (k known) unknownCases(cases []*endpoint.Case) []string {
	var names []string
	for name := range k {
		if !slices.ContainsFunc(cases, func(c *endpoint.Case) bool { return c.Name == name }) {
			names = append(names, name)
		}
	}
	return names
}
