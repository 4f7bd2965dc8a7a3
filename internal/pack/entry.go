package pack

import (
	"fmt"
	"slices"
	"strings"
)

// agentPrefix is the prefix of the state's name in a graph with a single state. An agent that has only
// a prompt has such a graph.
const agentPrefix = "agent:"

// Entry selects where a run begins. The zero value means the entry of the workflow. In a pack without a
// workflow it means the entry agent, and in a pack that has neither it means the only prompt.
type Entry struct {
	// Agent is the key of an agent member. In a pack without a workflow and agents it is the key of any prompt.
	Agent string
	// State is any state of the workflow. To start in another state than the entry of the workflow, a principal needs a scope, and the
	// start is recorded as an override. State and Agent must not both be set.
	State string
}

// EntryError means that a pack does not have the requested entry.
type EntryError struct {
	// Field is "agent", "state" or "entry".
	Field string
	// Name is the requested name. It is empty if no name was requested and the pack has no default
	// entry.
	Name string
	// Allowed are the names that exist, sorted. For the field "entry" it is one text that describes what is allowed.
	Allowed []string
}

func (e *EntryError) Error() string {
	if len(e.Allowed) == 0 {
		return "pack: " + e.Text()
	}
	return "pack: " + e.Text() + "; allowed: " + strings.Join(e.Allowed, ", ")
}

// Text returns the error without the allowed names.
func (e *EntryError) Text() string {
	switch {
	case e.Name == "":
		return "it has neither a workflow nor agents and more than one prompt; name one of them as agent"
	case len(e.Allowed) == 0:
		return fmt.Sprintf("%s %q does not exist; the pack has none", e.Field, e.Name)
	}
	return fmt.Sprintf("%s %q does not exist", e.Field, e.Name)
}

// Start is a resolved entry.
type Start struct {
	// State is the first state of the run. If Prompt is set, it is the only state in the graph of the
	// agent's prompt.
	State string
	// Agent is the member key if the run is the run of an agent. Otherwise it is "".
	Agent string
	// Prompt reports whether the agent has only a prompt. In this case State is not in the workflow.
	Prompt bool
}

// Start returns the state that a run with this entry enters first.
func (p *Pack) Start(entry Entry) (Start, error) {
	agents, states := p.Agents(), p.States()
	switch {
	case entry.Agent != "" && entry.State != "":
		return Start{}, &EntryError{Field: "entry", Name: entry.Agent + " and " + entry.State, Allowed: []string{"an agent or a state, not both"}}
	case entry.State != "":
		if !slices.Contains(states, entry.State) {
			return Start{}, &EntryError{Field: "state", Name: entry.State, Allowed: states}
		}
		return Start{State: entry.State}, nil
	case entry.Agent != "":
		if !slices.Contains(agents, entry.Agent) {
			return Start{}, &EntryError{Field: "agent", Name: entry.Agent, Allowed: agents}
		}
		return p.agentStart(entry.Agent), nil
	case p.Doc.Workflow != nil:
		return Start{State: p.Doc.Workflow.Entry}, nil
	case p.Doc.Agents != nil:
		return p.agentStart(p.Doc.Agents.Entry), nil
	}
	if len(agents) == 1 {
		return p.agentStart(agents[0]), nil
	}
	return Start{}, &EntryError{Field: "agent", Allowed: agents}
}

// Overrides reports whether an entry begins in a state other than the entry of the workflow. Such a run
// may skip earlier states.
func (p *Pack) Overrides(entry Entry) bool {
	return entry.State != "" && (p.Doc.Workflow == nil || entry.State != p.Doc.Workflow.Entry)
}

// agentStart returns where the runs of a member begin. This is the member's workflow state (PromptPack
// RFC 0011) or, if it has none, the only state in the graph of its prompt.
func (p *Pack) agentStart(member string) Start {
	if p.hasOnlyPrompts() {
		return Start{State: agentPrefix + member, Agent: member, Prompt: true}
	}
	if def := p.Doc.Agents.Members[member]; def != nil && def.State != "" {
		return Start{State: def.State, Agent: member}
	}
	return Start{State: agentPrefix + member, Agent: member, Prompt: true}
}

// stateBacked returns the distinct states in which agents start, sorted.
func (p *Pack) stateBacked() []string {
	states := map[string]bool{}
	if p.Doc.Agents != nil {
		for _, def := range p.Doc.Agents.Members {
			if def.State != "" {
				states[def.State] = true
			}
		}
	}
	return keys(states)
}

// Members returns the agents of the pack, sorted. They include agents.entry, even if the members do not list it.
func (p *Pack) Members() []string {
	if p.Doc.Agents == nil {
		return nil
	}
	names := keys(p.Doc.Agents.Members)
	if !slices.Contains(names, p.Doc.Agents.Entry) {
		names = append(names, p.Doc.Agents.Entry)
		slices.Sort(names)
	}
	return names
}

// Agents returns the names of agents with which a run can be started, sorted. These are the members. In
// a pack without a workflow and agents, they are all prompts. Only members can be called by other
// agents.
func (p *Pack) Agents() []string {
	if p.hasOnlyPrompts() {
		return keys(p.Doc.Prompts)
	}
	return p.Members()
}

// hasOnlyPrompts reports whether the pack has only prompts: neither a workflow nor agents.
func (p *Pack) hasOnlyPrompts() bool { return p.Doc.Workflow == nil && p.Doc.Agents == nil }

// States returns the workflow states, sorted. It returns nil if there is no workflow.
func (p *Pack) States() []string {
	if p.Doc.Workflow == nil {
		return nil
	}
	return keys(p.Doc.Workflow.States)
}

// reachableByEvents returns the states that can be reached by events and forced exits, sorted. The events of a
// terminal state cannot be used.
func reachableByEvents(states map[string]*State, start string) []string {
	seen := map[string]bool{}
	todo := []string{start}
	for len(todo) > 0 {
		name := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		s := states[name]
		if s == nil || seen[name] {
			continue
		}
		seen[name] = true
		if !s.Terminal {
			for _, to := range s.OnEvent {
				todo = append(todo, to)
			}
		}
		if s.OnMaxVisits != nil {
			todo = append(todo, *s.OnMaxVisits)
		}
	}
	return keys(seen)
}
