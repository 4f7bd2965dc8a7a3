package pack

import (
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestCompileCosts: a state that only on_budget leads to is in the graph, and a cost makes
// every graph of the pack keep a ledger.
func TestCompileCosts(t *testing.T) {
	t.Parallel()
	states := map[string]*State{
		"a": {OnEvent: map[string]string{"End": "z"}}, "z": {Terminal: true},
		"wrap": {OnEvent: map[string]string{"End": "z"}},
	}
	cost := 0.0000015
	p := &Pack{Doc: &Document{Workflow: &Workflow{Entry: "a", States: states, Engine: &Engine{XPawl: &XPawl{
		OnBudget: "wrap", Tools: map[string]ToolLimits{"elsewhere": {Cost: &cost}},
	}}}}}
	if got := p.reachableStates("a"); !slices.Equal(got, []string{"a", "wrap", "z"}) {
		t.Errorf("reachable are %v", got)
	}
	g := &machine.Graph{States: map[string]*machine.Node{"a": {}, "wrap": {}}}
	if p.compileCosts(g); !g.Ledger || g.OnBudget != "wrap" {
		t.Errorf("ledger %v, on_budget %q", g.Ledger, g.OnBudget)
	}
	prompt := &machine.Graph{}
	if p.compileCosts(prompt); !prompt.Ledger || prompt.OnBudget != "" {
		t.Errorf("of one prompt: ledger %v, on_budget %q", prompt.Ledger, prompt.OnBudget)
	}
	if got := costOf(&cost); got != 2 || costOf(nil) != 0 {
		t.Errorf("%v dollars are %d micro-dollars, rounded up 2", cost, got)
	}
	an := p.Analyze()
	if !an.Bounded || *an.MaxVisits != 4 || an.Exact {
		t.Errorf("at most %v visits, exact %v; 2 on each way", an.MaxVisits, an.Exact)
	}
}
