package executor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/cache"
)

// failingPacks answers with an error until it was asked more than fails times.
type failingPacks struct {
	pawlv1.PackServiceClient
	asked, fails int
	code         codes.Code
}

func (p *failingPacks) GetPack(context.Context, *pawlv1.GetPackRequest, ...grpc.CallOption) (*pawlv1.GetPackResponse, error) {
	if p.asked++; p.asked <= p.fails {
		return nil, status.Error(p.code, "no owner")
	}
	return &pawlv1.GetPackResponse{Tools: []*pawlv1.PackTool{{Name: "bank/charge", McpDigest: "sha256:1"}}}, nil
}

// TestPackOfAStep: the pack of a step is read again while the sidecar is not available. The step that cannot read it is
// reported before its time is over.
func TestPackOfAStep(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		packs failingPacks
		want  string
		asked int
		lasts time.Duration
	}{
		"a takeover":        {failingPacks{fails: 3, code: codes.Unavailable}, "sha256:1", 4, 600 * time.Millisecond},
		"a long absence":    {failingPacks{fails: 1000, code: codes.Unavailable}, "", 6, 1050 * time.Millisecond},
		"another error":     {failingPacks{fails: 1, code: codes.NotFound}, "", 1, 0},
		"an answer at once": {failingPacks{}, "sha256:1", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 2100*time.Millisecond)
				defer cancel()
				began := time.Now()
				tools := &Tools{packs: &c.packs, pinned: cache.New[string, map[string]string](maxPinned)}
				got, err := tools.digest(ctx, &pawlv1.StepAssignment{Lease: &pawlv1.StepLease{Tool: "bank/charge"}})
				failure, _ := errors.AsType[*pawl.Failure](err)
				if got != c.want || (failure == nil) == (c.want == "") || failure != nil && failure.Code != "PACK_UNREADABLE" {
					t.Errorf("%q, %v", got, err)
				}
				if lasted := time.Since(began); c.packs.asked != c.asked || lasted != c.lasts {
					t.Errorf("asked %d times in %v", c.packs.asked, lasted)
				}
			})
		})
	}
}
