package executor_test

import (
	"strings"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/testkit/endpoint"
)

// TestBudgetsHoldBeforeACall: what a call may consume is estimated, where the pack does not
// bound it, too, and a model is not asked whose answer the budget may not hold.
func TestBudgetsHoldBeforeACall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, engine, system string
		scheme               string
		asked                int
	}{
		{"it fits", `"max_tokens": 5000`, "Work.", "", 2},
		{"4096 are taken for the answer", `"max_tokens": 4096`, "Work.", "", 0},
		{"Anthropic's form asks for 8192", `"max_tokens": 8192`, "Work.", "anthropic+", 0},
		{"what it reads counts", `"max_tokens": 5000`, strings.Repeat("word", 1000), "", 0},
		{"cost is that of the bound", `"max_cost_usd": 0.004, "prices": {"gpt": {"input": 0, "output": 1}}`, "Work.", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pack := strings.ReplaceAll(desk(c.engine), `"Work."`, `"`+c.system+`"`)
			r := newRig(t, pack, c.scheme, func(n int) endpoint.Answer {
				if n == 0 {
					return doneAnswer()
				}
				return endpoint.Answer{Text: "The end."}
			})
			run := r.ended(r.start())
			want := pawlv1.RunStatus_RUN_STATUS_BUDGET_EXHAUSTED
			if c.asked > 0 {
				want = pawlv1.RunStatus_RUN_STATUS_COMPLETED
			}
			if run.GetStatus() != want || len(r.model.Requests()) != c.asked {
				t.Errorf("%v (%s) after %d requests; want %v after %d: %s",
					run.GetStatus(), run.GetReason(), len(r.model.Requests()), want, c.asked, r.records(run.GetRunId()))
			}
		})
	}
}
