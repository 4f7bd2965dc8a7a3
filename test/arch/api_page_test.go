package arch

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestAPIPageIsWhole: docs/reference/api.md names every RPC. docs/reference/errors.md names every
// reason that the contract promises, and no reason that no code gives.
func TestAPIPageIsWhole(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/reference/api.md")
	if err != nil {
		t.Fatal(err)
	}
	api, page := string(raw), apiPage(t)
	for _, rpc := range rpcsOf(t) {
		if !strings.Contains(api, "`"+rpc+"`") {
			t.Errorf("docs/reference/api.md does not name %s", rpc)
		}
	}
	for reason := range promised(t) {
		if !strings.Contains(page, "`"+reason+"`") {
			t.Errorf("docs/reference/errors.md does not name the reason %s", reason)
		}
	}
	code := literals(t)
	for _, found := range regexp.MustCompile("`([A-Z]{2,}(?:_[A-Z0-9]+)+)`").FindAllStringSubmatch(page, -1) {
		if !notReasons.MatchString(found[1]) && !strings.Contains(code, `"`+found[1]+`"`) {
			t.Errorf("docs/reference/errors.md names %s, which no code gives", found[1])
		}
	}
}

// rpcsOf lists the methods of all services.
func rpcsOf(t *testing.T) []string {
	t.Helper()
	var rpcs []string
	for _, service := range services() {
		for i := range service.Methods().Len() {
			rpcs = append(rpcs, string(service.Methods().Get(i).Name()))
		}
	}
	if len(rpcs) < 20 {
		t.Fatalf("%d RPCs found", len(rpcs))
	}
	return rpcs
}
