package server

import (
	"strings"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestRefusedCallsAreCounted: a sidecar shows what it refused beside what it did.
func TestRefusedCallsAreCounted(t *testing.T) {
	t.Parallel()
	c := settings(t)
	c.Metrics = "127.0.0.1:0"
	s := serve(t, c)
	runs := runWorker(t, s, "w", nil)
	if _, err := runs.GetRun(t.Context(), &pawlv1.GetRunRequest{RunId: "01J99999999999999999999999"}); err == nil {
		t.Fatal("there is no such run")
	}
	page := scrape(t, s, "")
	if line := `pawl_calls_refused_total{method="pawl.v1.RunService/GetRun",reason="RUN_NOT_FOUND"} 1`; !strings.Contains(page, line+"\n") {
		t.Errorf("no line %s in\n%s", line, page)
	}
}
