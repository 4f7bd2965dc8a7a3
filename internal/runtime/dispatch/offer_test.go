package dispatch_test

import (
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
)

// TestOfferOfAnAgent: a worker may name each agent with which a run can be started, also the entry agent that is not
// listed in the members.
func TestOfferOfAnAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.register("", `{
		"id": "team", "name": "Team", "version": "1.0.0", "template_engine": {"version": "v1", "syntax": "{{variable}}"},
		"prompts": {"lead": {"id": "lead", "name": "Lead", "version": "1.0.0", "system_template": "Lead."}, "dev": {"id": "dev", "name": "Dev", "version": "1.0.0", "system_template": "Work."}},
		"agents": {"entry": "lead", "members": {"dev": {"description": "Develops"}}}
	}`)
	w := r.connect("w", func(req *dispatch.WorkerRequest) {
		req.Offer.Packs, req.Offer.Agents, req.AllowUnknown = []string{"team"}, []string{"lead", "dev", "nobody"}, true
	})
	if !slices.Equal(w.conn.Unknown, []string{"agent:nobody"}) {
		t.Errorf("unknown: %v", w.conn.Unknown)
	}
}
