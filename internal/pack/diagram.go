package pack

import "slices"

// Diagram is the graph of a pack for people and tools: states, agents and what
// leads from one to the other. Its order depends on the content alone.
type Diagram struct {
	Pack    string `json:"pack"`
	Version string `json:"version"`
	Digest  string `json:"digest"`
	// Entry is the node at which a run begins without further say; "" if there is none.
	Entry string        `json:"entry"`
	Nodes []DiagramNode `json:"nodes"`
	Edges []DiagramEdge `json:"edges"`
}

// Kinds of nodes and edges.
const (
	NodeState = "state"
	NodeAgent = "agent"

	// EdgeEvent: a declared event.
	EdgeEvent = "event"
	// EdgeRedirect: the forced exit of a used-up guard.
	EdgeRedirect = "redirect"
	// EdgeStart: where the runs of an agent begin.
	EdgeStart = "start"
	// EdgeDelegation: a prompt lists an agent as its tool.
	EdgeDelegation = "delegation"
)

// DiagramNode is a workflow state or an agent.
type DiagramNode struct {
	// ID is the state's name, or "agent:" and the member key.
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// Prompt that runs there; "" for an agent that begins in a state.
	Prompt   string `json:"prompt,omitempty"`
	Entry    bool   `json:"entry,omitempty"`
	Terminal bool   `json:"terminal,omitempty"`
	// MaxVisits is the guard; 0 = none.
	MaxVisits     int64    `json:"max_visits,omitempty"`
	Orchestration string   `json:"orchestration,omitempty"`
	Persistent    bool     `json:"persistent,omitempty"`
	Artifacts     []string `json:"artifacts,omitempty"`
	// Visits of a run ([Diagram.Mark]); Current: it is there now, or was last.
	Visits  int64 `json:"visits,omitempty"`
	Current bool  `json:"current,omitempty"`
}

// DiagramEdge leads from one node to another, both by ID.
type DiagramEdge struct {
	From string `json:"from"`
	To   string `json:"to"`
	Kind string `json:"kind"`
	// Event of an event edge.
	Event string `json:"event,omitempty"`
	// MaxIterations bounds the edge; 0 = no bound.
	MaxIterations int64 `json:"max_iterations,omitempty"`
	// TimeoutSec: the event fires by itself after so many seconds; 0 = never.
	TimeoutSec int64 `json:"timeout_sec,omitempty"`
	// Guard of a redirect, for example "max_visits:implement".
	Guard string `json:"guard,omitempty"`
	// Followed is how often a run has followed the event.
	Followed int64 `json:"followed,omitempty"`
}

// Diagram draws the pack. States come by name, then agents; edges by their node.
func (p *Pack) Diagram() *Diagram {
	d := &Diagram{Pack: p.ID, Version: p.Version, Digest: p.Digest, Nodes: []DiagramNode{}, Edges: []DiagramEdge{}}
	if s, err := p.resolve(Entry{}); err == nil {
		d.Entry = s.state
	}
	members := p.Members()
	for _, name := range p.States() {
		p.drawState(d, name, members)
	}
	for _, agent := range p.Agents() {
		p.drawAgent(d, agent, members)
	}
	return d
}

func (p *Pack) drawState(d *Diagram, name string, members []string) {
	s, x := p.Doc.Workflow.States[name], p.xpawl()
	n := DiagramNode{
		ID: name, Kind: NodeState, Prompt: s.PromptTask, Entry: name == d.Entry, Terminal: s.ends(),
		MaxVisits: s.MaxVisits, Orchestration: s.Orchestration, Persistent: s.Persistence == "persistent",
		Artifacts: keys(s.Artifacts),
	}
	if n.Orchestration == "" {
		n.Orchestration = "internal"
	}
	d.Nodes = append(d.Nodes, n)
	for _, event := range keys(s.OnEvent) {
		e := DiagramEdge{From: name, To: s.OnEvent[event], Kind: EdgeEvent, Event: event, MaxIterations: x.MaxIterations[name][event]}
		if t := x.Timeouts[name]; t.Event == event {
			e.TimeoutSec = t.AfterSec
		}
		d.Edges = append(d.Edges, e)
	}
	if s.OnMaxVisits != nil {
		d.Edges = append(d.Edges, DiagramEdge{From: name, To: *s.OnMaxVisits, Kind: EdgeRedirect, Guard: "max_visits:" + name})
	}
	p.drawDelegations(d, name, s.PromptTask, members)
}

func (p *Pack) drawAgent(d *Diagram, member string, members []string) {
	start := p.agentStart(member)
	id := agentPrefix + member
	if !start.prompt {
		d.Nodes = append(d.Nodes, DiagramNode{ID: id, Kind: NodeAgent})
		d.Edges = append(d.Edges, DiagramEdge{From: id, To: start.state, Kind: EdgeStart})
		return
	}
	d.Nodes = append(d.Nodes, DiagramNode{ID: id, Kind: NodeAgent, Prompt: member, Entry: id == d.Entry, Terminal: true})
	p.drawDelegations(d, id, member, members)
}

func (p *Pack) drawDelegations(d *Diagram, from, prompt string, members []string) {
	doc := p.Doc.Prompts[prompt]
	if doc == nil {
		return
	}
	for _, tool := range doc.Tools {
		if _, ok := slices.BinarySearch(members, tool); ok {
			d.Edges = append(d.Edges, DiagramEdge{From: from, To: agentPrefix + tool, Kind: EdgeDelegation})
		}
	}
}
