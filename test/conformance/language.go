package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// language is one column: how to start its driver.
type language struct {
	name    string
	command []string
	modes   []mode
}

// languagesOf gives the languages of a comma-separated list.
func languagesOf(root, names string) ([]language, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	root, err = filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	here := filepath.Join(root, "test", "conformance")
	all := []language{
		{"go", []string{self, "driver"}, allModes[:2]},
		{"python", []string{filepath.Join(root, "clients/python/.venv/bin/python"), filepath.Join(here, "python")}, allModes},
		{"typescript", []string{"node", filepath.Join(here, "typescript/dist/driver.js")}, allModes[:2]},
	}
	var chosen []language
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(l language) bool { return l.name == name })
		if i < 0 {
			return nil, fmt.Errorf("languages: go, python, typescript, not %q", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
