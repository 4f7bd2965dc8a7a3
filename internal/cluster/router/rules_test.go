package router

import (
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/policy"
)

// TestEveryMethodHasARule that fits what it is: what changes nothing reads, and what changes
// something says when it is made again.
func TestEveryMethodHasARule(t *testing.T) {
	t.Parallel()
	listed := map[string]policy.Operation{}
	for _, op := range policy.Operations {
		listed[op.Name] = op
	}
	for name, m := range methods {
		op, ok := listed[name]
		if !ok || op.Changes != m.Changes {
			t.Errorf("%s is no operation that changes: %v", name, m.Changes)
		}
		_, said := rules[name]
		var may []Rule
		switch {
		case m.Rule == NodeInfo && strings.HasSuffix(name, "/GetCaller"):
			may = []Rule{NodeInfo} // it is of the caller, not of a store
		case op.Space == policy.SpaceAll && !m.Changes:
			may = []Rule{FanOut, NodeInfo}
		case m.clientStreams:
			may = []Rule{Bidi}
		case m.serverStreams && m.Changes && op.Space != policy.SpaceAll:
			may = []Rule{NoRetry}
		case m.serverStreams:
			may = []Rule{RetryUntilFirst, ResumeStream}
		case m.Changes:
			may = []Rule{Idempotent, IdempotentByKey, NoRetry}
		default:
			may = []Rule{ReadOnly, RetryRemaining}
		}
		if !slices.Contains(may, m.Rule) || (m.Changes || m.Streams()) && !said {
			t.Errorf("%s has rule %d, said in the table: %v; want one of %v", name, m.Rule, said, may)
		}
		if m.Rule == IdempotentByKey && len(m.ids) == 0 && !m.agents {
			t.Errorf("%s is to be known by an id that it does not have", name)
		}
		if m.Rule == NoRetry && len(m.ids) > 0 {
			t.Errorf("%s has the id %s, and is never made again", name, m.ids[0].Name())
		}
	}
	for name := range rules {
		if methods[name] == nil {
			t.Errorf("there is no method %s", name)
		}
	}
	for _, op := range policy.Operations {
		if ours := strings.HasPrefix(op.Name, "/pawl.") || strings.HasPrefix(op.Name, "/lf.a2a."); ours && methods[op.Name] == nil {
			t.Errorf("%s is routed nowhere", op.Name)
		}
	}
}
