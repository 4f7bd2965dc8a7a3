package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// lease is the part of a run's budget that an agent gets when the run calls it. It is computed for the first call of
// a run that has consumed nothing; later calls share the rest. A zero field means that the run has none.
type lease struct {
	Agent        string `json:"agent"`
	Tokens       int64  `json:"tokens,omitempty"`
	CostMicroUSD int64  `json:"cost_micro_usd,omitempty"`
	// ToolCalls is the number of tool calls that the agent's run may make. The delegation itself is one more call.
	ToolCalls int `json:"tool_calls,omitempty"`
	// Refused is the code with which the first call of the agent is refused; "" = the call is accepted.
	Refused string `json:"refused,omitempty"`
}

// leasesOf computes what part of a run's budget each agent of a pack gets (its lease). It uses the engine's state
// machine, with a run of one state that calls the agent. It leaves out agents that no prompt lists. It returns none if
// the pack has no workflow or no bound to share.
func leasesOf(p *pack.Pack) ([]lease, error) {
	listed := map[string]bool{}
	for _, prompt := range p.Doc.Prompts {
		for _, tool := range prompt.Tools {
			listed[tool] = true
		}
	}
	var out []lease
	for _, agent := range p.Members() {
		if !listed[agent] || p.Doc.Workflow == nil {
			continue
		}
		g, err := p.Compile(pack.Entry{})
		if _, unsupported := errors.AsType[*pack.UnsupportedError](err); unsupported {
			return nil, nil // no run begins there
		}
		if err != nil {
			return nil, err
		}
		tool, called := g.Tools[agent]
		if b := g.Budget; !called || b.MaxToolCalls == 0 && b.MaxTokens == 0 && b.MaxCostMicroUSD == 0 {
			continue
		}
		first, err := firstLease(g, agent, tool)
		if err != nil {
			return nil, err
		}
		out = append(out, first)
	}
	return out, nil
}

// firstLease makes the first call of an agent in the engine's state machine, and returns the part of the budget that
// the agent gets.
func firstLease(of *machine.Graph, agent string, tool machine.Tool) (lease, error) {
	tool.Approval = nil
	g := &machine.Graph{
		Entry: "s", States: map[string]*machine.Node{"s": {Name: "s", Prompt: "p", Terminal: true}},
		Prompts: map[string]*machine.Prompt{"p": {Name: "p", Tools: map[string]bool{agent: true}}}, Tools: map[string]machine.Tool{agent: tool},
		Budget: of.Budget, MaxPendingSteps: of.MaxPendingSteps, Ledger: of.Ledger,
	}
	started, err := rules.Step(g, nil, machine.Input{At: 1, Semantics: machine.Current, Command: machine.Start{RunID: "validate", Execution: machine.Caller}})
	if err != nil {
		return lease{}, err
	}
	asked, err := rules.Step(g, started.State, machine.Input{At: 1, Semantics: machine.Current, Command: machine.RequestSteps{
		TurnSeq: started.State.Turn.Seq, Attempt: 1, Requests: []machine.StepRequest{{Tool: agent, Payload: []byte("{}")}},
	}})
	if err != nil {
		return lease{}, err
	}
	out := lease{Agent: agent}
	for _, r := range asked.Batch.Records {
		switch b := r.Body.(type) {
		case *machine.StepRequested:
			out.Tokens, out.CostMicroUSD, out.ToolCalls = b.Bound.InputTokens, b.Bound.CostMicro, b.Bound.ToolCalls
		case *machine.StepRejected:
			out.Refused = b.Denial.Code
		}
	}
	return out, nil
}

// printLeases prints, for each agent, the part of the budget that its first call gets. It leaves out bounds that the
// pack does not have.
func printLeases(p *output.Printer, indent string, leases []lease) {
	for _, l := range leases {
		if l.Refused != "" {
			p.Printf("%sagent %s: %s\n", indent, l.Agent, p.Warn("is never called: "+l.Refused))
			continue
		}
		var parts []string
		if l.ToolCalls > 0 {
			parts = append(parts, fmt.Sprintf("%d of the tool calls", l.ToolCalls))
		}
		if l.Tokens > 0 {
			parts = append(parts, fmt.Sprintf("%d tokens", l.Tokens))
		}
		if l.CostMicroUSD > 0 {
			parts = append(parts, fmt.Sprintf("$%d.%06d", l.CostMicroUSD/1_000_000, l.CostMicroUSD%1_000_000))
		}
		p.Printf("%sagent %s: is leased %s\n", indent, l.Agent, strings.Join(parts, ", "))
	}
}
