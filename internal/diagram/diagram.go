package diagram

import (
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Diagram is the graph of a pack for display and tools: states, agents and the edges between them. Its order
// depends only on the content.
type Diagram struct {
	Pack    string `json:"pack"`
	Version string `json:"version"`
	Digest  string `json:"digest"`
	// Entry is the node at which a run begins by default; "" if there is none.
	Entry string `json:"entry"`
	Nodes []Node `json:"nodes"`
	Edges []Edge `json:"edges"`
	// Tools are the tools of the pack, and the agents that its prompts list, by name.
	Tools []Tool `json:"tools"`
}

// Kinds of nodes and edges.
const (
	NodeState = "state"
	NodeAgent = "agent"

	// EdgeEvent is a declared event.
	EdgeEvent = "event"
	// EdgeRedirect is the edge to the state that a run is forced to enter when a limit (guard) is used up.
	EdgeRedirect = "redirect"
	// EdgeStart leads to the state at which the runs of an agent begin.
	EdgeStart = "start"
	// EdgeDelegation leads to an agent that a prompt lists as its tool.
	EdgeDelegation = "delegation"
)

// Node is a workflow state or an agent.
type Node struct {
	// ID is the state's name, or "agent:" and the member key.
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// Prompt is the prompt that the node executes. It is "" for an agent that begins in a state.
	Prompt   string `json:"prompt,omitempty"`
	Entry    bool   `json:"entry,omitempty"`
	Terminal bool   `json:"terminal,omitempty"`
	// MaxVisits bounds the entries into the state; 0 = no bound.
	MaxVisits     int64    `json:"max_visits,omitempty"`
	Orchestration string   `json:"orchestration,omitempty"`
	Persistent    bool     `json:"persistent,omitempty"`
	Artifacts     []string `json:"artifacts,omitempty"`
	// Tools are the tools that turns of the node may call, including agents, sorted by name.
	Tools []string `json:"tools,omitempty"`
	// Visits is the number of visits in the run that was added by [Diagram.Mark]. Current reports whether this run is in the state, or ended
	// in it.
	Visits  int64 `json:"visits,omitempty"`
	Current bool  `json:"current,omitempty"`
}

// Edge leads from one node to another, both by ID.
type Edge struct {
	From string `json:"from"`
	To   string `json:"to"`
	Kind string `json:"kind"`
	// Event is the name of the event of an event edge.
	Event string `json:"event,omitempty"`
	// MaxIterations bounds the edge; 0 = no bound.
	MaxIterations int64 `json:"max_iterations,omitempty"`
	// TimeoutSec is the time in the state after which the event fires automatically, in seconds; 0 = never.
	TimeoutSec int64 `json:"timeout_sec,omitempty"`
	// Guard is the limit that forces a redirect when it is used up, for example "max_visits:implement".
	Guard string `json:"guard,omitempty"`
	// Followed is the number of times that the run has followed the event.
	Followed int64 `json:"followed,omitempty"`
}

// agentMark is the prefix of the identifiers of agents.
const agentMark = "agent:"

// sketch is a diagram that is being built.
type sketch struct {
	*Diagram
	pack *pack.Pack
	// members are the agents of the pack, sorted.
	members []string
	// calls caches the tools of each prompt.
	calls map[string][]string
}

// Of returns the diagram of a pack. Its nodes are the states, sorted by name, and then the agents. Its edges have the
// order of the nodes from which they lead.
func Of(p *pack.Pack) *Diagram {
	d := sketch{
		Diagram: &Diagram{Pack: p.ID, Version: p.Version, Digest: p.Digest, Nodes: []Node{}, Edges: []Edge{}},
		pack:    p, members: p.Members(), calls: map[string][]string{},
	}
	if s, err := p.Start(pack.Entry{}); err == nil {
		d.Entry = s.State
	}
	for _, name := range p.States() {
		d.state(name)
	}
	for _, agent := range p.Agents() {
		d.agent(agent)
	}
	d.Tools = d.tools()
	return d.Diagram
}

// state adds a state of the workflow and the edges that begin at it.
func (d sketch) state(name string) {
	s, x := d.pack.Doc.Workflow.States[name], d.pack.XPawl()
	n := Node{
		ID: name, Kind: NodeState, Prompt: s.PromptTask, Entry: name == d.Entry, Terminal: s.Ends(),
		MaxVisits: s.MaxVisits, Orchestration: s.Orchestration, Persistent: s.Persistence == "persistent",
		Artifacts: slices.Sorted(maps.Keys(s.Artifacts)), Tools: d.callable(s.PromptTask),
	}
	if n.Orchestration == "" {
		n.Orchestration = "internal"
	}
	d.Nodes = append(d.Nodes, n)
	for _, event := range slices.Sorted(maps.Keys(s.OnEvent)) {
		e := Edge{From: name, To: s.OnEvent[event], Kind: EdgeEvent, Event: event, MaxIterations: x.MaxIterations[name][event]}
		if t := x.Timeouts[name]; t.Event == event {
			e.TimeoutSec = t.AfterSec
		}
		d.Edges = append(d.Edges, e)
	}
	if s.OnMaxVisits != nil {
		d.Edges = append(d.Edges, Edge{From: name, To: *s.OnMaxVisits, Kind: EdgeRedirect, Guard: "max_visits:" + name})
	}
	d.delegations(name, s.PromptTask)
}

func (d sketch) agent(member string) {
	start, err := d.pack.Start(pack.Entry{Agent: member})
	if err != nil {
		return
	}
	id := agentMark + member
	if !start.Prompt {
		d.Nodes = append(d.Nodes, Node{ID: id, Kind: NodeAgent})
		d.Edges = append(d.Edges, Edge{From: id, To: start.State, Kind: EdgeStart})
		return
	}
	d.Nodes = append(d.Nodes, Node{ID: id, Kind: NodeAgent, Prompt: member, Entry: id == d.Entry, Terminal: true, Tools: d.callable(member)})
	d.delegations(id, member)
}

func (d sketch) delegations(from, prompt string) {
	doc := d.pack.Doc.Prompts[prompt]
	if doc == nil {
		return
	}
	for _, tool := range doc.Tools {
		if _, ok := slices.BinarySearch(d.members, tool); ok {
			d.Edges = append(d.Edges, Edge{From: from, To: agentMark + tool, Kind: EdgeDelegation})
		}
	}
}

// ReachableFrom returns the part of the diagram that a run can reach. g is the run's graph, which contains only these
// states. The list of tools stays that of the whole pack.
func (d *Diagram) ReachableFrom(g *machine.Graph) *Diagram {
	out := *d
	out.Entry, out.Nodes, out.Edges = g.Entry, nil, nil
	for _, n := range d.Nodes {
		if g.States[n.ID] != nil {
			n.Entry = n.ID == g.Entry
			out.Nodes = append(out.Nodes, n)
		}
	}
	for _, e := range d.Edges {
		if g.States[e.From] != nil && g.States[e.To] != nil {
			out.Edges = append(out.Edges, e)
		}
	}
	return &out
}
