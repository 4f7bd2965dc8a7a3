package main

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/audit"
)

// TestAuditDecisions: --decisions selects the decisions of each way, and --method the calls of one.
func TestAuditDecisions(t *testing.T) {
	t.Parallel()
	for _, e := range []struct {
		entry         audit.Entry
		made, byAnRPC bool
	}{
		{audit.Entry{Seq: 1, Method: "pawl.v1.ControlService/DecideStep", Decision: "APPROVE"}, true, true},
		{audit.Entry{Seq: 1, Method: "lf.a2a.v1.A2AService/SendMessage", Decision: "DENY"}, true, false},
		{audit.Entry{Seq: 1, Method: "lf.a2a.v1.A2AService/SendMessage"}, false, false},
		{audit.Entry{Seq: 1, Method: "pawl.v1.RunService/StartRun"}, false, false},
	} {
		made, method := auditFilter{decisions: true}, auditFilter{method: "DecideStep"}
		if made.selects(&e.entry) != e.made || method.selects(&e.entry) != e.byAnRPC {
			t.Errorf("%+v is selected: %v, by the method: %v", e.entry, made.selects(&e.entry), method.selects(&e.entry))
		}
	}
}
