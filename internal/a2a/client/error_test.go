package client

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestNotTaken: only what certainly did nothing is sent again to an agent that would do
// it again. A proxy's own 503 is no such answer.
func TestNotTaken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		retry  string
		unsent bool
	}{
		{404, "", true}, {408, "", true}, {409, "", true}, {425, "", true}, {429, "", true}, {503, "1", true},
		{503, "", false}, {500, "1", false}, {502, "1", false}, {504, "1", false},
	} {
		resp := &http.Response{
			StatusCode: c.status, Status: http.StatusText(c.status), Header: http.Header{},
			Body: io.NopCloser(strings.NewReader("upstream connect error or disconnect/reset before headers")),
		}
		if c.retry != "" {
			resp.Header.Set("Retry-After", c.retry)
		}
		fault := faultOf(ofHTTP(resp))
		if fault.Kind != machine.AgentUnreachable || fault.Unsent != c.unsent {
			t.Errorf("%d with Retry-After %q is %+v, want unsent %v", c.status, c.retry, fault, c.unsent)
		}
	}
}
