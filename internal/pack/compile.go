package pack

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Defaults of engine.x_pawl, and of tool_policy (defaultToolCalls).
const (
	defaultPending     = 8
	defaultToolTimeout = 300 * time.Second
	defaultToolCalls   = 10
	defaultAttempts    = 3
	defaultPause       = time.Second
	defaultMaxPause    = 60 * time.Second
)

// Compile returns the control flow for one entry, with the states that can be reached from the entry.
// Errors: [*EntryError], [*UnsupportedError]. Any other error is a bug of this package, because [Load]
// refuses a pack that has no valid graph.
func (p *Pack) Compile(entry Entry) (*machine.Graph, error) {
	start, err := p.Start(entry)
	if err != nil {
		return nil, err
	}
	g := &machine.Graph{
		Digest: p.Digest, PackID: p.ID, PackVersion: p.Version,
		Entry: start.State, Agent: start.Agent,
		States:    map[string]*machine.Node{},
		Prompts:   map[string]*machine.Prompt{},
		Artifacts: map[string]machine.Artifact{},
		Tools:     map[string]machine.Tool{},
	}
	if start.Prompt {
		g.States[start.State] = &machine.Node{Name: start.State, Prompt: start.Agent, Terminal: true}
	} else {
		if err := p.composedFrom(start.State); err != nil {
			return nil, err
		}
		p.compileStates(g, start.State)
	}
	for _, n := range g.States {
		g.Prompts[n.Prompt] = p.compilePrompt(n.Prompt)
	}
	p.compileEngine(g)
	p.compileTools(g)
	if err := machine.CheckGraph(g); err != nil {
		return nil, fmt.Errorf("pack %s@%s: the graph of %s is unsound: %w", p.ID, p.Version, start.State, err)
	}
	return g, nil
}

// compileStates adds the states that a run can reach from start by events, by forced exits and by on_budget.
func (p *Pack) compileStates(g *machine.Graph, start string) {
	states := p.Doc.Workflow.States
	x := p.XPawl()
	for _, name := range p.reachableStates(start) {
		s := states[name]
		n := &machine.Node{
			Name: name, Prompt: s.PromptTask, Terminal: s.Ends(),
			MaxVisits:     clampInt(s.MaxVisits),
			OnMaxVisits:   deref(s.OnMaxVisits),
			Orchestration: orchestrationOf(s.Orchestration),
			Control:       controlOf(s.Control),
			Persistent:    s.Persistence == "persistent",
			Artifacts:     keys(s.Artifacts),
		}
		// The events of a terminal state cannot be used, and they may lead to states that cannot be reached in any other way. So the graph does
		// not contain them.
		if !n.Terminal {
			compileEdges(n, s, x)
		} else if x.Outcome[name] == "failed" {
			n.Outcome = machine.Failed
		}
		g.States[name] = n
	}
	// Artifacts belong to the whole workflow, not only to the states that can be reached. An artifact
	// that only an unreachable state declares is also declared.
	for _, s := range states {
		for name, a := range s.Artifacts {
			g.Artifacts[name] = machine.Artifact{Type: a.Type, Mode: modeOf(a.Mode)}
		}
	}
}

// compileEdges adds the events of a state, with the timeout and the limits of x_pawl.max_iterations.
func compileEdges(n *machine.Node, s *State, x *XPawl) {
	n.OnEvent = s.OnEvent
	if t, ok := x.Timeouts[n.Name]; ok {
		n.Timeout = &machine.Timeout{After: seconds(t.AfterSec), Event: t.Event}
	}
	for event, most := range x.MaxIterations[n.Name] {
		if n.MaxIterations == nil {
			n.MaxIterations = map[string]int{}
		}
		n.MaxIterations[event] = clampInt(most)
	}
}

// compilePrompt returns the prompt for the graph, with the model or the provider that its turns use.
func (p *Pack) compilePrompt(key string) *machine.Prompt {
	doc := p.Doc.Prompts[key]
	out := &machine.Prompt{Name: key, Tools: set(doc.Tools)}
	out.Model = p.XPawl().ModelOf(key)
	out.Provider = doc.Provider
	if r := p.requirements[cmp.Or(doc.Provider, DefaultProvider)]; r != nil {
		out.ProviderRole = r.Role
	}
	if out.Model == "" && p.XPawl().MaxCostUSD != nil && len(doc.ModelOverrides) > 0 {
		out.Models = keys(doc.ModelOverrides)
	}
	// The default of 10 calls applies only if there is a tool_policy. Without a tool_policy there is no bound.
	if pol := doc.ToolPolicy; pol != nil {
		out.Blocklist = set(pol.Blocklist)
		out.MaxToolCallsPerTurn = clampInt(valueOr(pol.MaxToolCallsPerTurn, defaultToolCalls))
	}
	return out
}

// compileEngine sets budgets and runtime settings from engine. engine belongs to the workflow.
// Therefore an agent with a single prompt, in a pack without a workflow, has the defaults.
func (p *Pack) compileEngine(g *machine.Graph) {
	x := p.XPawl()
	g.Lease = secondsOr(x.LeaseSec, 0)
	g.MaxPendingSteps = clampInt(valueOr(x.MaxPendingSteps, defaultPending))
	g.MaxArtifactBytes, g.MaxRunArtifactBytes = valueOr(x.MaxArtifactBytes, 0), valueOr(x.MaxRunArtifactBytes, 0)
	g.WallExcludesWaiting = x.WallTimeExcludesWaiting
	g.Erasable = x.Erasable
	g.Retry, g.ModelCalls = x.Retry.policy(), modelCalls(x)
	g.NoProgress = noProgress(x.NoProgress)
	if len(x.CompensateOn) > 0 {
		g.CompensateOn = set(x.CompensateOn)
	}
	g.Budget = machine.Budget{
		MaxSteps:    clampInt(valueOr(x.MaxSteps, 0)),
		MaxReframes: clampInt(valueOr(x.MaxReframes, 0)),
		MaxTokens:   valueOr(x.MaxTokens, 0),
	}
	if x.MaxCostUSD != nil {
		// The amount is rounded up, because otherwise a budget below one millionth would become 0,
		// which means "no budget".
		g.Budget.MaxCostMicroUSD = machine.MicroUSD(*x.MaxCostUSD)
	}
	g.Prices = pricesOf(x)
	p.compileCosts(g)
	if b := p.budget(); b != nil {
		g.Budget.MaxTotalVisits = clampInt(valueOr(b.MaxTotalVisits, 0))
		g.Budget.MaxToolCalls = clampInt(valueOr(b.MaxToolCalls, 0))
		g.Budget.MaxWallTime = secondsOr(b.MaxWallTimeSec, 0)
	}
}

// noProgress returns the rule against loops without progress. It returns nil if the pack has none.
func noProgress(n *NoProgress) *machine.NoProgress {
	if n == nil {
		return nil
	}
	over := set(n.Over)
	return &machine.NoProgress{
		Window: clampInt(n.Window), Artifacts: n.Over == nil || over["artifacts"], ToolCalls: n.Over == nil || over["tool_calls"],
	}
}

// pricesOf returns the prices in the pack. It returns nil if there are none.
func pricesOf(x *XPawl) map[string]machine.Price {
	if len(x.Prices) == 0 {
		return nil
	}
	prices := make(map[string]machine.Price, len(x.Prices))
	for model, p := range x.Prices {
		prices[model] = machine.PriceUSD(p.Input, p.Cached, p.Output, p.Reasoning)
	}
	return prices
}

// compileTools adds every tool that a prompt of the graph lists. In the run of an agent with a single
// prompt there are no artifacts, so no answer of a tool is written to an artifact.
func (p *Pack) compileTools(g *machine.Graph) {
	members := set(p.Members())
	for _, prompt := range g.Prompts {
		for name := range prompt.Tools {
			p.compileTool(g, name, members[name])
		}
	}
}

// compileTool adds a tool with its reconcile tool and its compensate tool. The prompts do not have to
// list the last two.
func (p *Pack) compileTool(g *machine.Graph, name string, agent bool) {
	tool := p.Tool(name, agent)
	if _, declared := g.Artifacts[tool.ResultArtifact]; !declared {
		tool.ResultArtifact = ""
	}
	g.Tools[name] = tool
	for _, other := range []string{tool.Reconcile, tool.Compensate} {
		if _, known := g.Tools[other]; other != "" && !known {
			p.compileTool(g, other, false)
		}
	}
}

// Tool returns the settings for calls of a tool, or of an agent of the pack, with all defaults.
func (p *Pack) Tool(name string, agent bool) machine.Tool {
	x := p.XPawl()
	limits := x.Tools[name]
	attempts, pauses := limits.retry()
	return machine.Tool{
		Timeout:        secondsOr(limits.TimeoutSec, timeoutOf(agent)),
		Attempts:       attempts,
		Retry:          pauses,
		MaxCalls:       clampInt(valueOr(limits.MaxCalls, 0)),
		CostMicro:      costOf(limits.Cost),
		OnError:        faultOf(limits.OnError),
		OnUnknown:      faultOf(limits.OnUnknown),
		OnUnknownSet:   limits.OnUnknown != "",
		Agent:          agent,
		TurnTokens:     p.turnTokens(name, agent),
		ResultArtifact: x.ResultBindings[name],
		Dedupe:         pointersOf(limits.Dedupe),
		Reconcile:      limits.Reconcile,
		Compensate:     limits.Compensate,
		Approval:       limits.approval(),
	}
}

// timeoutOf returns the default timeout of a step. It is longer for an agent, because the run of an
// agent takes longer than a tool.
func timeoutOf(agent bool) time.Duration {
	if agent {
		return machine.DefaultDelegationTimeout
	}
	return defaultToolTimeout
}

// XPawl returns engine.x_pawl. It returns the zero value if there is none.
func (p *Pack) XPawl() *XPawl {
	if w := p.Doc.Workflow; w != nil && w.Engine != nil && w.Engine.XPawl != nil {
		return w.Engine.XPawl
	}
	return &XPawl{}
}

// budget returns engine.budget. It returns nil if there is none.
func (p *Pack) budget() *Budget {
	if w := p.Doc.Workflow; w != nil && w.Engine != nil {
		return w.Engine.Budget
	}
	return nil
}

func orchestrationOf(s string) machine.Orchestration {
	switch s {
	case "external":
		return machine.External
	case "hybrid":
		return machine.Hybrid
	default:
		return machine.Internal
	}
}

func controlOf(s string) machine.Control {
	switch s {
	case controlUser:
		return machine.ControlUser
	case controlAgent:
		return machine.ControlAgent
	default:
		return machine.ControlUndeclared
	}
}

func modeOf(s string) machine.Mode {
	if s == "append" {
		return machine.Append
	}
	return machine.Replace
}

func faultOf(s string) machine.OnFault {
	switch s {
	case "retry":
		return machine.Retry
	case "escalate":
		return machine.Escalate
	case "reconcile":
		return machine.Reconcile
	default:
		return machine.Return
	}
}

// keys returns the sorted names of a map.
func keys[K cmp.Ordered, V any](m map[K]V) []K {
	out := make([]K, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func set(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, n := range names {
		out[n] = true
	}
	return out
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func valueOr(v *int64, def int64) int64 {
	if v == nil {
		return def
	}
	return *v
}

// seconds converts a number of seconds to a duration. The schema limits the number to 100 years.
func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

func secondsOr(n *int64, def time.Duration) time.Duration {
	if n == nil {
		return def
	}
	return seconds(*n)
}

// clampInt limits a count to the range of stored counters and of int on 32-bit platforms. No run
// reaches this number.
func clampInt(n int64) int { return int(min(n, math.MaxInt32)) }
