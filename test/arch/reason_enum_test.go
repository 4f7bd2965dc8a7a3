package arch

import (
	"regexp"
	"strings"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

const reasonPrefix = "ERROR_REASON_"

// sentReason finds the reasons of refusals in the source of the runtime and of the edges.
var sentReason = regexp.MustCompile(`machine\.Code\w+,\s*Reason:\s*"([A-Z][A-Z_0-9]+)"`)

// TestReasonsAreOfTheContract: the enum ErrorReason, from which every client gets the names, has each
// reason that docs/reference/errors.md documents and each that the code gives, and no other.
func TestReasonsAreOfTheContract(t *testing.T) {
	t.Parallel()
	code, documented := literals(t), documentedReasons(t)
	sent := map[string]bool{}
	for _, found := range sentReason.FindAllStringSubmatch(code, -1) {
		sent[found[1]] = true
	}
	if len(sent) < 80 {
		t.Fatalf("only %d reasons found in the code", len(sent))
	}
	for reason := range sent {
		if _, ok := pawlv1.ErrorReason_value[reasonPrefix+reason]; !ok {
			t.Errorf("the code gives the reason %s, which proto/pawl/v1/reason.proto does not have", reason)
		}
	}
	for reason := range documented {
		if _, ok := pawlv1.ErrorReason_value[reasonPrefix+reason]; !ok {
			t.Errorf("docs/reference/errors.md has the reason %s, which proto/pawl/v1/reason.proto does not have", reason)
		}
	}
	for name := range pawlv1.ErrorReason_value {
		reason := strings.TrimPrefix(name, reasonPrefix)
		if _, ok := documented[reason]; !ok && !sent[reason] && reason != "UNSPECIFIED" {
			t.Errorf("proto/pawl/v1/reason.proto has the reason %s, which no code gives and no page documents", reason)
		}
	}
}
