package main

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// TestShownWaits: `runs show` and `runs list` say that a run waits for a limit, as JSON too.
func TestShownWaits(t *testing.T) {
	t.Parallel()
	run := &pawlv1.Run{RunId: "R", WaitingFor: []*pawlv1.LimitWait{
		{Limits: []*pawlv1.LimitKey{{Limit: "mail"}}, Tool: "send_mail", Step: 4, Waited: durationpb.New(time.Second), Ahead: 2},
	}}
	for _, c := range []struct {
		json bool
		show func(p *output.Printer)
		want string
	}{
		{false, func(p *output.Printer) { printRun(p, run, nil) }, "waits for   limit mail: tool send_mail, step 4, for 1s, 2 before it"},
		{false, func(p *output.Printer) { _ = printRuns(p, []*pawlv1.Run{run}) }, "waits for limit mail"},
		{true, func(p *output.Printer) { _ = printRuns(p, []*pawlv1.Run{run}) }, `"waiting_for":[{"limits":[{"limit":"mail"`},
		{true, func(p *output.Printer) { _ = output.WriteJSON(p.Out, output.RunWith(run, nil)) }, `"waiting_for":[{"limits":[{"limit":"mail"`},
	} {
		var out strings.Builder
		c.show(&output.Printer{Out: &out, JSON: c.json})
		if squeezed := strings.NewReplacer(" ", "", "\n", "").Replace(out.String()); !strings.Contains(squeezed, strings.ReplaceAll(c.want, " ", "")) {
			t.Errorf("want %s in\n%s", c.want, out.String())
		}
	}
}
