package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// language is one column: how to start its driver, or where it listens.
type language struct {
	name    string
	command []string
	// network and address are those of a driver that runs already, for net.Dial. Default: command
	// starts it.
	network, address string
	modes            []mode
	// level is the highest level of scenarios that the driver plays.
	level level
}

// driverOf reads NAME=COMMAND, NAME=tcp:HOST:PORT or NAME=unix:PATH. COMMAND is split at blanks.
func driverOf(text string, most level) (language, error) {
	name, how, found := strings.Cut(text, "=")
	lang := language{name: name, modes: allModes[:1], level: most}
	if !found || name == "" || strings.TrimSpace(how) == "" {
		return lang, fmt.Errorf("driver: NAME=COMMAND, NAME=tcp:HOST:PORT or NAME=unix:PATH, not %q", text)
	}
	if slices.Contains(builtIn, name) {
		return lang, fmt.Errorf("driver: %s has a driver of its own, take another name", name)
	}
	for _, network := range []string{"tcp", "unix"} {
		if address, ok := strings.CutPrefix(how, network+":"); ok {
			lang.network, lang.address = network, address
			return lang, nil
		}
	}
	lang.command = strings.Fields(how)
	return lang, nil
}

// builtIn are the languages whose drivers are in this repository.
var builtIn = []string{"go", "python", "typescript"}

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
		{name: "go", command: []string{self, "driver"}, modes: allModes[:2], level: modelsLevel},
		{name: "python", command: []string{filepath.Join(root, "clients/python/.venv/bin/python"), filepath.Join(here, "python")}, modes: allModes, level: modelsLevel},
		{name: "typescript", command: []string{"node", filepath.Join(here, "typescript/dist/driver.js")}, modes: allModes[:2], level: modelsLevel},
	}
	var chosen []language
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(l language) bool { return l.name == name })
		if i < 0 {
			return nil, fmt.Errorf("languages: %s, not %q", strings.Join(builtIn, ", "), name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
