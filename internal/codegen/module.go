package codegen

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// module is the data of a pack that a writer needs, in a fixed order.
type module struct {
	pack *pack.Pack
	// events are the events of all states. artifacts are sorted by name.
	events    []string
	artifacts []artifact
	// variables is the type of the variables with which a run starts at the pack's own entry. If it is nil, the pack has none, and
	// any variables are valid.
	variables *typ
	agents    []agent
	tools     []tool
	prompts   []turn
	// all describes a turn of any prompt. It has the events and tools of all prompts. A variable is always present
	// in it only if it is in the turns of all prompts.
	all turn
}

type artifact struct {
	name, about string
	form        machine.Form
}

// agent is an entry of the pack at which the runs of an agent begin.
type agent struct {
	name      string
	variables *typ
}

// tool is a tool that a prompt lists or that the pack declares.
type tool struct {
	name string
	// arguments is the type of the tool's arguments. If it is nil, any object is valid.
	arguments *typ
	// defs are the definitions that the arguments refer to.
	defs []*definition
	// agent reports whether the tool is an agent, which the sidecar itself calls.
	agent bool
}

// turn is what a handler (the application's function for a turn) can read in the turns of one prompt, and what it may
// answer.
type turn struct {
	prompt    string
	events    []string
	tools     []string
	variables *typ
}

// survey returns the module data of a pack.
func survey(p *pack.Pack) (*module, error) {
	m := &module{pack: p, artifacts: artifactsOf(p)}
	if err := m.entries(); err != nil {
		return nil, err
	}
	if err := m.turns(); err != nil {
		return nil, err
	}
	m.tools = toolsOf(p, m.all.tools)
	return m, nil
}

func artifactsOf(p *pack.Pack) []artifact {
	found := map[string]artifact{}
	if p.Doc.Workflow != nil {
		for _, state := range p.States() {
			for name, a := range p.Doc.Workflow.States[state].Artifacts {
				if found[name].about == "" {
					found[name] = artifact{name: name, about: a.Description, form: machine.FormOf(a.Type)}
				}
			}
		}
	}
	return sorted(found)
}

// entries reads the variables with which runs are started.
func (m *module) entries() error {
	own, err := m.pack.Variables(pack.Entry{})
	var none *pack.EntryError
	switch {
	case err == nil:
		m.variables = started(own)
	case !errors.As(err, &none): // an EntryError means that the pack has no entry of its own
		return err
	}
	for _, name := range m.pack.Agents() {
		declared, err := m.pack.Variables(pack.Entry{Agent: name})
		if err != nil {
			return err
		}
		m.agents = append(m.agents, agent{name: name, variables: started(declared)})
	}
	return nil
}

// turns reads the data of the turns of each prompt.
func (m *module) turns() error {
	entered, err := entriesOf(m.pack)
	if err != nil {
		return err
	}
	names, all := variablesOf(m.pack, entered), []*typ{}
	events, tools := map[string]string{}, map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(m.pack.Doc.Prompts)) {
		t := turn{prompt: key, events: eventsOf(m.pack, key), tools: listed(m.pack.Doc.Prompts[key])}
		t.variables = seen(names, entered[key])
		m.prompts, all = append(m.prompts, t), append(all, t.variables)
		for _, name := range t.events {
			events[name] = name
		}
		for _, name := range t.tools {
			tools[name] = name
		}
	}
	m.events = sorted(events)
	m.all = turn{events: m.events, tools: sorted(tools), variables: common(names, all)}
	return nil
}

// entriesOf returns, for each prompt, the variables that each way into the prompt declares. The ways are the states
// that execute the prompt, and the start of the prompt as an agent.
func entriesOf(p *pack.Pack) (map[string][][]pack.DeclaredVariable, error) {
	out := map[string][][]pack.DeclaredVariable{}
	add := func(prompt string, entry pack.Entry) error {
		declared, err := p.Variables(entry)
		out[prompt] = append(out[prompt], declared)
		return err
	}
	for _, state := range p.States() {
		if err := add(p.Doc.Workflow.States[state].PromptTask, pack.Entry{State: state}); err != nil {
			return nil, err
		}
	}
	for _, name := range p.Agents() {
		start, err := p.Start(pack.Entry{Agent: name})
		if err != nil {
			return nil, err
		}
		if !start.Prompt {
			continue
		}
		if err := add(name, pack.Entry{Agent: name}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// eventsOf returns the events of the states that execute a prompt.
func eventsOf(p *pack.Pack, prompt string) []string {
	found := map[string]string{}
	for _, name := range p.States() {
		state := p.Doc.Workflow.States[name]
		if state.PromptTask != prompt || state.Terminal {
			continue
		}
		for event := range state.OnEvent {
			found[event] = event
		}
	}
	return sorted(found)
}

// listed returns the tools that a prompt may call.
func listed(prompt *pack.Prompt) []string {
	found := map[string]string{}
	for _, name := range prompt.Tools {
		found[name] = name
	}
	if prompt.ToolPolicy != nil {
		for _, name := range prompt.ToolPolicy.Blocklist {
			delete(found, name)
		}
	}
	return sorted(found)
}

// toolsOf returns the tools that the pack declares, and the tools that prompts list.
func toolsOf(p *pack.Pack, listed []string) []tool {
	found := map[string]tool{}
	for _, name := range append(slices.Collect(maps.Keys(p.Doc.Tools)), listed...) {
		found[name] = toolOf(p, name)
	}
	return sorted(found)
}

func toolOf(p *pack.Pack, name string) tool {
	out := tool{name: name, agent: slices.Contains(p.Members(), name)}
	switch parameters := p.Parameters(name); {
	case parameters != nil:
		r := newReader()
		out.arguments = settled(r.payload(parameters, nil))
		out.defs = r.order
	case out.agent && p.Doc.Tools[name] == nil:
		out.arguments = agentPayload()
	}
	return out
}

// agentPayload returns the type of the arguments of an agent that the pack does not declare as a tool. docs/guides/a2a.md defines it.
func agentPayload() *typ {
	return &typ{kind: object, fields: map[string]*field{
		"message":   {about: "What the agent is to do", typ: &typ{kind: text}},
		"variables": {about: "Values of the agent's variables", typ: anyObject},
		"data":      {about: "Structured parts of the message", typ: &typ{kind: list, elem: anyType}},
	}}
}

// started returns the type of the variables with which a run is started.
func started(declared []pack.DeclaredVariable) *typ {
	out := &typ{kind: object, fields: map[string]*field{}, required: map[string]bool{}}
	for i := range declared {
		d := &declared[i]
		out.fields[d.Name] = &field{about: d.Description, typ: declaredType(d)}
		out.required[d.Name] = d.Required
	}
	return out
}

// variablesOf returns all variables of a pack as a turn can read them. A variable has a type if all prompts agree on it and every entry
// that has the variable declares a type.
func variablesOf(p *pack.Pack, entered map[string][][]pack.DeclaredVariable) map[string]*field {
	out := map[string]*field{}
	for _, key := range slices.Sorted(maps.Keys(p.Doc.Prompts)) {
		for _, v := range p.Doc.Prompts[key].Variables {
			one := &field{about: v.Description, typ: basic(v.Type)}
			if before := out[v.Name]; before != nil && before.typ.kind != one.typ.kind {
				one.typ = anyType
			}
			out[v.Name] = one
		}
	}
	for _, entries := range entered {
		for _, d := range slices.Concat(entries...) {
			if d.Type == "" {
				out[d.Name] = &field{about: d.Description, typ: anyType}
			}
		}
	}
	return out
}

// seen returns the type of the variables that a turn of a prompt can read. entries are the variables that each way
// into the prompt declares. A variable is always present if every way requires it or has a default for it.
func seen(names map[string]*field, entries [][]pack.DeclaredVariable) *typ {
	out := &typ{kind: object, fields: map[string]*field{}, required: map[string]bool{}}
	maps.Copy(out.fields, names)
	for i, declared := range entries {
		there := map[string]bool{}
		for _, d := range declared {
			there[d.Name] = (d.Required || d.Default != nil) && (i == 0 || out.required[d.Name])
		}
		out.required = there
	}
	return out
}

// common returns the type of the variables that a turn of any prompt can read. A variable is always present if it is
// in the turns of all prompts.
func common(names map[string]*field, turns []*typ) *typ {
	out := &typ{kind: object, fields: maps.Clone(names), required: map[string]bool{}}
	for name := range out.fields {
		out.required[name] = !slices.ContainsFunc(turns, func(t *typ) bool { return !t.required[name] })
	}
	return out
}

// declaredType returns the type of a variable with which a run is started.
func declaredType(d *pack.DeclaredVariable) *typ {
	values := d.Enum()
	if d.Type != "string" || len(values) == 0 {
		return basic(d.Type)
	}
	types := make([]*typ, len(values))
	for i, raw := range values {
		var value string
		if json.Unmarshal(raw, &value) != nil {
			return basic(d.Type)
		}
		types[i] = valueType(value)
	}
	return unite(types)
}

// basic returns the type for a type name of PromptPack RFC 0003. Values of any other type name are not checked, so
// their type is any value.
func basic(name string) *typ {
	switch name {
	case "string":
		return &typ{kind: text}
	case "number":
		return &typ{kind: number}
	case "boolean":
		return &typ{kind: boolean}
	case "object":
		return anyObject
	case "array":
		return &typ{kind: list, elem: anyType}
	}
	return anyType
}

func sorted[T any](by map[string]T) []T {
	out := make([]T, 0, len(by))
	for _, name := range slices.Sorted(maps.Keys(by)) {
		out = append(out, by[name])
	}
	return out
}
