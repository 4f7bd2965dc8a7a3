package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// TestShow: the table has the use of each bound and the waiting tenants, and leaves out values without
// a bound.
func TestShow(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &output.Printer{Out: &out}
	if err := showLimits(p, []*pawlv1.Limit{{Id: "gpt", PerMinute: 60, TokensPerMinute: 30000, Uses: []*pawlv1.LimitUse{{
		Key: "gpt-5", Started: 12, Tokens: 900, Held: durationpb.New(3 * time.Second),
		Waiting: []*pawlv1.TenantQueue{{Tenant: "acme", Calls: 7}, {Calls: 2}},
	}}}, {Id: "mail", Concurrent: 2}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"gpt-5", "12/60", "900/30000", "9 ", "acme 7", "3s", "mail", "0/2"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}
