package convert

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/pack"
)

// TestTerminationSaysWhatBounds: the message says what bounds a loop. If only the budget of the whole run ends
// a loop, the message does not say that its guards end it.
func TestTerminationSaysWhatBounds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		by     []string
		visits int64
	}{
		"rfc0005-1-simple-agent.json":       {[]string{"acyclic"}, 2},
		"rfc0005-2-multi-phase-agent.yaml":  {nil, 0},
		"rfc0009-1-codegen-agent.yaml":      {[]string{"max_total_visits"}, 30},
		"rfc0009-3-self-correcting.json":    {[]string{"max_visits"}, 4},
		"rfc0011-1-security-review.yaml":    {[]string{"max_visits"}, 40},
		"rfc0009-4-ops-remediation.yaml":    {[]string{"max_total_visits"}, 20},
		"rfc0007-3-vision-assistant.yaml":   {nil, 0},
		"rfc0005-3-orchestrated-agent.json": {[]string{"acyclic"}, 2},
	}
	for name, want := range tests {
		src, err := os.ReadFile(filepath.Join("../../../testdata/packs", name))
		if err != nil {
			t.Fatal(err)
		}
		p, found, err := pack.Load(src, pack.Options{})
		if p == nil {
			t.Fatalf("%s: %v, %v", name, found, err)
		}
		got, _ := TerminationsToProto(p)
		if !slices.Equal(got.GetBoundedBy(), want.by) || got.GetMaxVisits() != want.visits {
			t.Errorf("%s: bounded by %q, %d visits", name, got.GetBoundedBy(), got.GetMaxVisits())
		}
	}
}
