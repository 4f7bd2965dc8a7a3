package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/a2a/client"
	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packs"
	"github.com/pawl-dev/pawl/internal/runtime/query"
)

// leasedPack leases 1000 micro-dollars of 2000, and half of the tokens, to the helper.
var leasedPack = strings.NewReplacer(`"version": "1.0.0",
  "template_engine"`, `"version": "2.0.0",
  "template_engine"`, `"engine": {`, `"engine": {"x_pawl": {"max_cost_usd": 0.002, "max_tokens": 1000, "max_pending_steps": 2, "tools": {"helper": {"cost": 0.001}}}, `,
	`"system_template": "Help."`, `"system_template": "Help.", "parameters": {"max_tokens": 100}`).Replace(teamPack)

// TestRogueUsage: an agent on another sidecar may report any usage. The account pays no more than
// the lease, and gets nothing back that it did not have. An invalid report fails the step.
func TestRogueUsage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		usage string
		code  string
		cost  int64
	}{
		"as leased":           {`{"usage": {"cost_micro_usd": 1000, "input_tokens": 500}}`, "", 1000},
		"less":                {`{"usage": {"cost_micro_usd": 1, "input_tokens": 2}}`, "", 1},
		"above the lease":     {`{"usage": {"cost_micro_usd": 1001, "input_tokens": 2}}`, "LEASE_EXCEEDED", 1000},
		"tokens above it":     {`{"usage": {"cost_micro_usd": 7, "input_tokens": 300, "output_tokens": 201}}`, "LEASE_EXCEEDED", 7},
		"all the money":       {`{"usage": {"cost_micro_usd": 1000000000000}}`, "LEASE_EXCEEDED", 1000},
		"below zero":          {`{"usage": {"cost_micro_usd": -1000}}`, "AGENT_PROTOCOL", 0},
		"half of a token":     {`{"usage": {"input_tokens": 0.5}}`, "AGENT_PROTOCOL", 0},
		"more than there is":  {`{"usage": {"cost_micro_usd": 1e300}}`, "AGENT_PROTOCOL", 0},
		"a word for a number": {`{"usage": {"cost_micro_usd": "1"}}`, "AGENT_PROTOCOL", 0},
		"nothing":             {`{}`, "", 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRogue(t, false)
			done := strings.TrimSuffix(task("COMPLETED"), "}") + fmt.Sprintf(`,"metadata":{%q:%s}}`, protocol.DelegationURI, c.usage)
			g.rpc = func(w http.ResponseWriter, _ *http.Request, method string) { result(w, method, done) }
			d := newDelegator(t, client.Remote{Card: g.URL + "/card"}, waitLimit)
			if _, err := d.RegisterPack(d.ctx, packs.RegisterRequest{Call: adminCall, Document: []byte(leasedPack)}); err != nil {
				t.Fatal(err)
			}
			got := d.delegate(`{"message":"go"}`)
			if got.OK != (c.code == "") || got.Error.Code != c.code {
				t.Errorf("the step ended with %v, %s: %s", got.OK, got.Error.Code, got.Error.Message)
			}
			view, err := d.GetRun(d.ctx, query.GetRunRequest{RunRef: runtime.RunRef{Call: adminCall, RunID: d.run}})
			if err != nil {
				t.Fatal(err)
			}
			s := view.State
			if s.CostMicro < c.cost || s.CostMicro > 1000 || c.code != "AGENT_PROTOCOL" && s.CostMicro != c.cost || s.Tokens > 500 || s.Tokens < 0 {
				t.Errorf("%d micro-dollars and %d tokens are settled, want %d", s.CostMicro, s.Tokens, c.cost)
			}
			for i := range s.Steps {
				if s.Steps[i].Bound != (machine.Amount{}) {
					t.Errorf("step %d still reserves %+v", s.Steps[i].Step, s.Steps[i].Bound)
				}
			}
		})
	}
}
