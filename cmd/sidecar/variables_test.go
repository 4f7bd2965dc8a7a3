package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/config"
)

// TestUnknownVariables: a variable that is almost a setting is a fault, and one that is not is ignored. Settings, variables
// of callers, keys of models and what Kubernetes adds for a service are neither.
func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	config.Flags(flags)
	for name, want := range map[string]string{
		"PAWL_TOKENS_FIEL": "PAWL_TOKENS_FILE", "PAWL_TOKENFILE": "PAWL_TOKEN_FILE", "PAWL_LOG_LEVL": "PAWL_LOG_LEVEL", "PAWL_DATTA": "PAWL_DATA",
		"PAWL_CONFG": "PAWL_CONFIG", "PAWL_FLAVOUR": "ignored",
		"PAWL_TOKENS_FILE": "", "PAWL_TOKEN_FILE": "", "PAWL_LIMITS_STREAMS": "", "PAWL_CONFIG": "", "PAWL_ADDR": "", "PAWL_MODEL_KEY_GPT_5": "",
		"PAWL_SERVICE_HOST": "", "PAWL_SERVICE_PORT_GRPC": "", "PAWL_PORT": "", "PAWL_PORT_7291_TCP_ADDR": "", "PAWL_PODS_SERVICE_PORT": "", "PATH": "", "pawl_data": "",
	} {
		faults, ignored := unknownVariables(flags, []string{"HOME=/", name + "=a=b"})
		got := ""
		switch {
		case len(faults) == 1 && len(ignored) == 0 && faults[0].Field == name:
			got = strings.TrimSuffix(strings.TrimPrefix(faults[0].Message, "is no setting; did you mean "), "?")
		case slices.Equal(ignored, []string{name}):
			got = "ignored"
		}
		if got != want || len(faults)+len(ignored) > 1 {
			t.Errorf("%s: %v and %v, want %q", name, faults, ignored, want)
		}
	}
}
