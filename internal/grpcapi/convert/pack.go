package convert

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/diagram"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// PackToProto converts a pack. The rows of a list contain no document. In that case the document is
// taken from p.
func PackToProto(row *machine.PackRow, p *pack.Pack) *pawlv1.Pack {
	document := row.Source
	if len(document) == 0 {
		document = p.Source
	}
	out := &pawlv1.Pack{
		Id: row.ID, Version: row.Version, Digest: row.Digest, Name: p.Doc.Name, Description: p.Doc.Description,
		IsDefault: row.Default, RegisteredAt: TimeToProto(row.RegisteredAt), SizeBytes: int64(len(document)), Agents: p.Agents(),
	}
	if p.Doc.Workflow != nil {
		out.Entry = p.Doc.Workflow.Entry
	}
	return out
}

// DiagnosticsToProto converts the diagnostics of a pack.
func DiagnosticsToProto(in []pack.Diagnostic) []*pawlv1.Diagnostic {
	var out []*pawlv1.Diagnostic
	for _, d := range in {
		severity := pawlv1.Severity_SEVERITY_WARNING
		if d.Severity == pack.SeverityError {
			severity = pawlv1.Severity_SEVERITY_ERROR
		}
		out = append(out, &pawlv1.Diagnostic{
			Code: d.Code, Severity: severity, Pointer: d.Pointer, Line: int32(d.Line), Column: int32(d.Column),
			Message: d.Message, Hint: d.Hint,
		})
	}
	return out
}

// TerminationsToProto analyzes whether the workflow of a pack and its agents always end.
func TerminationsToProto(p *pack.Pack) (*pawlv1.Termination, []*pawlv1.Termination) {
	var agents []*pawlv1.Termination
	for _, member := range p.Agents() {
		if t, err := p.AnalyzeEntry(pack.Entry{Agent: member}); err == nil {
			out := terminationToProto(p, t)
			out.Agent = member
			agents = append(agents, out)
		}
	}
	whole := p.Analyze()
	if whole == nil {
		return nil, agents
	}
	return terminationToProto(p, whole), agents
}

func terminationToProto(p *pack.Pack, t *pack.Termination) *pawlv1.Termination {
	out := &pawlv1.Termination{Bounded: t.Bounded, Exact: t.Exact, AlsoLimitedBy: t.AlsoLimitedBy, BoundedBy: t.BoundedBy, Cycle: cycleToProto(p, t)}
	if t.MaxVisits != nil {
		out.MaxVisits = *t.MaxVisits
	}
	return out
}

// cycleToProto lists the states and events of a cycle in a pack's workflow. A cycle can repeat for ever, so the
// guards (max_visits) on it count as used up, and the list contains the redirects to which they then lead.
func cycleToProto(p *pack.Pack, t *pack.Termination) []*pawlv1.CycleEdge {
	var out []*pawlv1.CycleEdge
	at := t.CycleStart
	for _, event := range t.Cycle {
		to := usedUp(p, at, event)
		out = append(out, &pawlv1.CycleEdge{FromState: at, Event: event, ToState: to})
		at = to
	}
	return out
}

// usedUp returns the state to which an event leads after all guards (max_visits, max_iterations) are used up. It returns
// "" if there is none.
func usedUp(p *pack.Pack, from, event string) string {
	states := p.Doc.Workflow.States
	state := states[from]
	if state == nil {
		return ""
	}
	to := state.OnEvent[event]
	if engine := p.Doc.Workflow.Engine; engine != nil && engine.XPawl != nil && engine.XPawl.MaxIterations[from][event] > 0 {
		to = exitOf(state)
	}
	for range states {
		next := states[to]
		if next == nil || next.MaxVisits == 0 {
			break
		}
		to = exitOf(next)
	}
	return to
}

func exitOf(s *pack.State) string {
	if s.OnMaxVisits == nil {
		return ""
	}
	return *s.OnMaxVisits
}

// ToolsToProto lists the tools of a pack, and the agents that its prompts list.
func ToolsToProto(p *pack.Pack) []*pawlv1.PackTool {
	var out []*pawlv1.PackTool
	for _, t := range diagram.Of(p).Tools {
		tool := &pawlv1.PackTool{
			Name: t.Name, Agent: t.Kind == diagram.NodeAgent, Description: t.Description, Prompts: t.Prompts, Approve: t.Approve, OnTimeout: t.OnTimeout,
			NotStarter: t.NotStarter, Dedupe: t.Dedupe, MaxCalls: int32(t.MaxCalls), CostMicroUsd: t.CostMicroUSD, Attempts: int32(t.Attempts),
			Timeout: durationpb.New(time.Duration(t.TimeoutSec) * time.Second), OnError: t.OnError, OnUnknown: t.OnUnknown, Reconcile: t.Reconcile,
			Compensate: t.Compensate, ResultArtifact: t.ResultArtifact, Sensitive: t.Sensitive, McpDigest: t.MCPDigest,
		}
		if t.ApprovalTimeoutSec > 0 {
			tool.ApprovalTimeout = durationpb.New(time.Duration(t.ApprovalTimeoutSec) * time.Second)
		}
		out = append(out, tool)
	}
	return out
}

// GraphToProto converts the graph of one entry, with the diagrams of the pack. For an agent, the diagrams show only the
// states that it can reach.
func GraphToProto(p *pack.Pack, g *machine.Graph) *pawlv1.GetPackGraphResponse {
	drawing := diagram.Of(p)
	if g.Agent != "" {
		drawing = drawing.ReachableFrom(g)
	}
	out := &pawlv1.GetPackGraphResponse{
		Pack: PackRefToProto(p.ID, p.Version, p.Digest), Entry: g.Entry, Mermaid: drawing.Mermaid(), Dot: drawing.DOT(),
	}
	for _, name := range slices.Sorted(maps.Keys(g.States)) {
		node := nodeToProto(g.States[name], name == g.Entry)
		node.Tools, node.Skills = callable(g.Prompts[node.GetPrompt()]), SkillFilter(p, name)
		if p.Doc.Workflow != nil && p.Doc.Workflow.States[name] != nil {
			node.Description = p.Doc.Workflow.States[name].Description
		}
		out.Nodes = append(out.Nodes, node)
		out.Edges = append(out.Edges, edgesToProto(g.States[name])...)
	}
	slices.SortStableFunc(out.Nodes, func(a, b *pawlv1.GraphNode) int { return cmp.Compare(first(b.GetEntry()), first(a.GetEntry())) })
	return out
}

func first(entry bool) int {
	if entry {
		return 1
	}
	return 0
}

func nodeToProto(n *machine.Node, entry bool) *pawlv1.GraphNode {
	return &pawlv1.GraphNode{
		Name: n.Name, Prompt: n.Prompt, Entry: entry, Terminal: n.Terminal, MaxVisits: int32(n.MaxVisits),
		OnMaxVisits: n.OnMaxVisits, Orchestration: pawlv1.Orchestration(n.Orchestration + 1),
		Persistent: n.Persistent, Artifacts: slices.Sorted(slices.Values(n.Artifacts)),
	}
}

// callable lists the tools of a prompt that the prompt does not block, sorted by name.
func callable(p *machine.Prompt) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p.Tools)), func(tool string) bool { return p.Blocklist[tool] })
}

// edgesToProto lists the edges of a state, sorted by kind and event.
func edgesToProto(n *machine.Node) []*pawlv1.GraphEdge {
	var out []*pawlv1.GraphEdge
	for _, event := range slices.Sorted(maps.Keys(n.OnEvent)) {
		out = append(out, &pawlv1.GraphEdge{
			FromState: n.Name, Event: event, ToState: n.OnEvent[event], Kind: pawlv1.EdgeKind_EDGE_KIND_EVENT,
			MaxIterations: int32(n.MaxIterations[event]),
		})
	}
	if n.OnMaxVisits != "" {
		out = append(out, &pawlv1.GraphEdge{FromState: n.Name, ToState: n.OnMaxVisits, Kind: pawlv1.EdgeKind_EDGE_KIND_MAX_VISITS})
	}
	if n.Timeout != nil {
		out = append(out, &pawlv1.GraphEdge{
			FromState: n.Name, Event: n.Timeout.Event, ToState: n.OnEvent[n.Timeout.Event], Kind: pawlv1.EdgeKind_EDGE_KIND_TIMEOUT,
		})
	}
	return out
}

// SkillFilter returns the field skills of a state: the path of a folder of skills, or "none". "" means all skills.
func SkillFilter(p *pack.Pack, state string) string {
	if p.Doc.Workflow == nil || p.Doc.Workflow.States[state] == nil || p.Doc.Workflow.States[state].Skills == nil {
		return ""
	}
	return *p.Doc.Workflow.States[state].Skills
}
