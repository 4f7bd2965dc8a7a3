package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/nearest"
)

const variablePrefix = "PAWL_"

// variablesOfCallers are environment variables that commands and clients read, and `pawl serve` does not. An environment
// may have them beside those of the sidecar.
var variablesOfCallers = []string{"PAWL_ADDR", "PAWL_TOKEN", tokenFileVariable, "PAWL_TURN_TOKEN", "PAWL_CA", "PAWL_CERT", "PAWL_KEY", "PAWL_SIDECAR"}

// tokenFileVariable is the variable of callers whose name is almost that of the sidecar's own, PAWL_TOKENS_FILE.
const tokenFileVariable = "PAWL_TOKEN_FILE" //nolint:gosec // It is the name of a variable.

// ofService matches the variables that Kubernetes and container links make for a service with the name pawl.
var ofService = regexp.MustCompile(`^PAWL_(\w+_)?(SERVICE_(HOST|PORT)|PORT)(_|$)`)

// unknownVariables looks for variables with the prefix PAWL_ that are no setting, in an environment of NAME=VALUE. flags
// are those of the settings. faults has the variables whose name is almost that of a setting: the operator probably
// meant the setting, and without it the sidecar could, for example, ask for no token. ignored has the others.
func unknownVariables(flags *pflag.FlagSet, environ []string) (faults []config.Fault, ignored []string) {
	known := slices.Clone(variablesOfCallers)
	flags.VisitAll(func(f *pflag.Flag) { known = append(known, config.EnvName(f.Name)) })
	words := make([]string, len(known))
	for i, name := range known {
		words[i] = strings.TrimPrefix(name, variablePrefix)
	}
	for _, one := range environ {
		name, _, _ := strings.Cut(one, "=")
		word, ours := strings.CutPrefix(name, variablePrefix)
		if !ours || strings.HasPrefix(word, "MODEL_KEY_") || ofService.MatchString(name) || slices.Contains(known, name) {
			continue
		}
		if meant := nearest.Word(word, words); meant != "" {
			faults = append(faults, config.Fault{Field: name, Message: "is no setting; did you mean " + variablePrefix + meant + "?"})
		} else {
			ignored = append(ignored, name)
		}
	}
	return faults, ignored
}
