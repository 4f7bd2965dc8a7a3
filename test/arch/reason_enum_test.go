package arch

import (
	"strings"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

const reasonPrefix = "ERROR_REASON_"

// notOfTheContract are reasons that no caller gets, each with its reader.
var notOfTheContract = map[string]string{
	"NOT_OWNER":       "the node that forwarded a call",
	"PEER_UNKNOWN":    "the node that forwarded a call",
	"STATE_ASSERTION": "the script of `pawl run`, which makes the error itself",
}

// TestReasonsAreOfTheContract: the enum ErrorReason, from which every client gets the names, has each
// reason that docs/reference/errors.md documents and each that the code gives, and no other. The page
// has each of them too.
func TestReasonsAreOfTheContract(t *testing.T) {
	t.Parallel()
	given, documented := reasonsOfCode(t), documentedReasons(t)
	if len(given) < 220 {
		t.Fatalf("only %d reasons found in the code", len(given))
	}
	for reason, at := range given {
		if notOfTheContract[reason] != "" {
			continue
		}
		if _, ok := pawlv1.ErrorReason_value[reasonPrefix+reason]; !ok {
			t.Errorf("%s gives the reason %s, which proto/pawl/v1/reason.proto does not have", at, reason)
		}
		if _, ok := documented[reason]; !ok {
			t.Errorf("%s gives the reason %s, which docs/reference/errors.md does not have", at, reason)
		}
	}
	for reason := range documented {
		if _, ok := pawlv1.ErrorReason_value[reasonPrefix+reason]; !ok {
			t.Errorf("docs/reference/errors.md has the reason %s, which proto/pawl/v1/reason.proto does not have", reason)
		}
	}
	for name := range pawlv1.ErrorReason_value {
		reason := strings.TrimPrefix(name, reasonPrefix)
		if given[reason] == "" && reason != "UNSPECIFIED" {
			t.Errorf("proto/pawl/v1/reason.proto has the reason %s, which no code gives", reason)
		}
	}
	for reason := range notOfTheContract {
		if given[reason] == "" {
			t.Errorf("notOfTheContract has %s, which no code gives", reason)
		}
	}
}
