package machine

import (
	"errors"
	"fmt"
)

// CheckGraph reports all faults that make a graph unusable for Step: names that refer to nothing, and
// negative bounds. The code that compiles or loads a Graph calls it once.
func CheckGraph(g *Graph) error {
	var faults []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	must(g.States[g.Entry] != nil, "entry: no state %q", g.Entry)
	for name, n := range g.States {
		if n == nil {
			must(false, "state %q is empty", name)
			continue
		}
		must(n.Name == name, "state %q calls itself %q", name, n.Name)
		faults = append(faults, checkNode(g, n)...)
	}
	for name, tool := range g.Tools {
		_, ok := g.Artifacts[tool.ResultArtifact]
		must(ok || tool.ResultArtifact == "", "tool %q writes undeclared artifact %q", name, tool.ResultArtifact)
		must(tool.Timeout >= 0 && tool.Attempts >= 0 && tool.CostMicro >= 0 && tool.OnError != Retry && tool.OnError != Reconcile && tool.Retry.sound() && (tool.Approval == nil || tool.Approval.Timeout >= 0), "tool %q: %+v", name, tool)
		must(effectsSound(g, &tool), "tool %q: effects of %+v", name, tool)
	}
	b := &g.Budget
	must(min(b.MaxTotalVisits, b.MaxToolCalls, b.MaxSteps, b.MaxReframes, g.MaxPendingSteps) >= 0 &&
		min(b.MaxTokens, b.MaxCostMicroUSD, g.MaxArtifactBytes, g.MaxRunArtifactBytes) >= 0 &&
		min(b.MaxWallTime, g.Lease) >= 0, "a budget or bound is below zero")
	for model, p := range g.Prices {
		must(model != "" && min(p.Input, p.Cached, p.Output, p.Reasoning) >= 0, "price of model %q: %+v", model, p)
	}
	must(g.OnBudget == "" || g.States[g.OnBudget] != nil, "on_budget: no state %q", g.OnBudget)
	must(g.Retry.sound(), "retry: %+v", g.Retry)
	must(g.NoProgress == nil || g.NoProgress.Window >= 2, "no_progress: %+v", g.NoProgress)
	must(g.ModelCalls == nil || g.ModelCalls.Timeout >= 0 && g.ModelCalls.Retry.sound() && g.ModelCalls.Unknown() <= Escalate, "calls of models: %+v", g.ModelCalls)
	return errors.Join(faults...)
}

// sound reports whether the pauses never become shorter and all values are in range. It returns true
// for a nil policy.
func (p *RetryPolicy) sound() bool {
	return p == nil || p.MaxAttempts >= 0 && min(p.Initial, p.Max) >= 0 &&
		(p.Multiplier == 0 || p.Multiplier >= 1000 && p.Multiplier <= 1_000_000) &&
		(p.Jitter == nil || *p.Jitter >= 0 && *p.Jitter <= 1_000_000)
}

func checkNode(g *Graph, n *Node) []error {
	var faults []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("state %q: %w", n.Name, fmt.Errorf(format, args...)))
		}
	}
	must(n.MaxVisits >= 0, "max_visits %d", n.MaxVisits)
	must(n.Terminal || len(n.OnEvent) > 0, "no events, so it has to be terminal")
	must(n.Outcome == StatusUnset || n.Terminal && (n.Outcome == Completed || n.Outcome == Failed), "outcome %s", n.Outcome)
	must(n.OnMaxVisits == "" || g.States[n.OnMaxVisits] != nil, "on_max_visits: no state %q", n.OnMaxVisits)
	for event, target := range n.OnEvent {
		must(g.States[target] != nil, "event %q: no state %q", event, target)
	}
	for event, limit := range n.MaxIterations {
		must(limit > 0 && n.OnEvent[event] != "", "max_iterations: %d of event %q", limit, event)
	}
	if n.Timeout != nil {
		must(n.Timeout.After > 0, "timeout after %s", n.Timeout.After)
		must(n.Terminal || n.OnEvent[n.Timeout.Event] != "", "timeout: event %q is not declared", n.Timeout.Event)
	}
	for _, name := range n.Artifacts {
		_, ok := g.Artifacts[name]
		must(ok, "artifact %q is not in the graph", name)
	}
	return faults
}

// effectsSound reports whether Reconcile and Compensate name valid tools of the graph. These tools must not be agents and must not have a
// compensation or a business key. Only a compensating tool may have a reconcile tool.
func effectsSound(g *Graph, tool *Tool) bool {
	if (tool.OnUnknown == Reconcile) != (tool.Reconcile != "") || tool.Agent && tool.Reconcile != "" {
		return false
	}
	if asks := tool.Reconcile; asks != "" {
		if by, ok := g.Tools[asks]; !ok || by.Agent || by.Reconcile+by.Compensate != "" || len(by.Dedupe) > 0 {
			return false
		}
	}
	if compensator := tool.Compensate; compensator != "" {
		if by, ok := g.Tools[compensator]; !ok || by.Agent || by.Compensate != "" || len(by.Dedupe) > 0 {
			return false
		}
	}
	return true
}
