package arch

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestDiagnosticCodes: each client has a constant for each code of docs/reference/diagnostics.md, and no
// other. A test of internal/pack holds the page to the code.
func TestDiagnosticCodes(t *testing.T) {
	t.Parallel()
	want := codesIn(t, "../../docs/reference/diagnostics.md", "(?m)^\\| `(PP[A-Z0-9]+-[A-Za-z0-9.]+)` \\| (?:error|warning)")
	if len(want) < 90 {
		t.Fatalf("only %d codes on the page", len(want))
	}
	for _, path := range []string{
		"../../clients/go/diagnostic_code.go", "../../clients/python/src/pawl_client/_diagnostic_codes.py", "../../clients/typescript/src/diagnostic_code.ts",
	} {
		if got := codesIn(t, path, `(?m)^\s+PP\w+: "(PP\S+)",$|^\s+(?:DiagnosticCode_)?PP\w+ += "(PP\S+)"$`); !slices.Equal(got, want) {
			t.Errorf("%s has %d codes, the page %d: run `make generate`", path, len(got), len(want))
		}
	}
}

// codesIn returns the codes that a pattern finds in a file, in order.
func codesIn(t *testing.T, path, pattern string) []string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(raw), -1) {
		for _, code := range found[1:] {
			if code != "" {
				codes = append(codes, code)
			}
		}
	}
	return codes
}
