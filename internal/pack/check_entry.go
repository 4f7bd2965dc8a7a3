package pack

import (
	"mime"
	"slices"
)

// maxStateBacked bounds the number of agents that start in different states. Each of these states is an
// entry that must be checked.
const maxStateBacked = 256

// agents checks the agent members (PromptPack RFC 0007 and RFC 0011).
func (c *checker) agents() {
	a := c.doc.Agents
	if a == nil {
		return
	}
	if a.Entry != "" && c.doc.Prompts[a.Entry] == nil {
		c.f.err("PP0007-1", "/agents/entry", "", "the entry agent %s is not a prompt; prompts: %s", quote(a.Entry), c.promptNames())
	}
	if a.Entry != "" && a.Members[a.Entry] == nil {
		c.f.warn("PP0007-3", "/agents/entry", "Add it to members.", "the entry agent %s is not listed in members; it is exposed anyway", quote(a.Entry))
	}
	if n := len(c.p.stateBacked()); n > maxStateBacked {
		c.f.err(ruleAgents, "/agents/members", "", "the agents start in %d different states; the limit is %d", n, maxStateBacked)
	}
	for _, key := range c.p.Members() {
		c.member(key, a.Members[key])
	}
	if entry := c.doc.Prompts[a.Entry]; entry != nil {
		for i, tool := range entry.Tools {
			if c.doc.Prompts[tool] != nil && !c.isTool(tool) {
				c.f.warn("PP0007-4", pointer("prompts", a.Entry, "tools", index(i)), "Add it to agents.members.",
					"the tool %s is a prompt but not an agent member", quote(tool))
			}
		}
	}
}

// member checks one agent. def is nil if the agent is the entry agent but is not listed as a member.
func (c *checker) member(key string, def *AgentDef) {
	at := pointer("agents", "members", key)
	p := c.doc.Prompts[key]
	if p == nil && def != nil {
		c.f.err("PP0007-2", at, "", "the agent member %s is not a prompt; prompts: %s", quote(key), c.promptNames())
	}
	if p != nil {
		if i := slices.Index(p.Tools, key); i >= 0 {
			c.f.err("PP0007-5", pointer("prompts", key, "tools", index(i)), "Remove it.", "the agent %s lists itself as a tool", quote(key))
		}
	}
	if def == nil {
		return
	}
	c.modes(at+"/input_modes", def.InputModes)
	c.modes(at+"/output_modes", def.OutputModes)
	switch {
	case def.State == "":
	case c.doc.Workflow == nil:
		c.f.err("PP0011-2", at+"/state", "Add a workflow, or remove state.", "the agent %s starts in a state but the pack has no workflow", quote(key))
	case c.doc.Workflow.States[def.State] == nil:
		c.f.err("PP0011-1", at+"/state", "", "the agent %s starts in %s, which is not a state; states: %s", quote(key), quote(def.State), c.stateNames())
	}
}

func (c *checker) modes(at string, modes []string) {
	for i, m := range modes {
		// Parameters (text/plain; charset=utf-8) are allowed by RFC 2045.
		if base, _, err := mime.ParseMediaType(m); err != nil || !mediaRange.MatchString(base) {
			c.f.warn("PP0007-6", at+pointer(index(i)), "For example text/plain or image/*.", "the mode %s does not look like type/subtype", quote(m))
		}
	}
}

// entries checks everything that depends on the possible entries of runs: reachability, termination and the variables of each entry.
// Other checks report entries that do not exist.
func (c *checker) entries() {
	var starts []Start
	if w := c.doc.Workflow; w != nil {
		if w.States[w.Entry] != nil {
			starts = append(starts, Start{State: w.Entry})
		}
		for _, s := range c.p.stateBacked() {
			if s != w.Entry && w.States[s] != nil && len(starts) <= maxStateBacked {
				starts = append(starts, Start{State: s})
			}
		}
		c.reachability(starts)
		c.reportEndless(starts)
	}
	for _, member := range c.p.Agents() {
		if s := c.p.agentStart(member); s.Prompt && c.doc.Prompts[member] != nil {
			starts = append(starts, s)
		}
	}
	undeclared := map[string]bool{}
	for _, s := range starts {
		c.entryVariables(s, undeclared)
	}
}

// reachability reports states that no entry leads to, states with a composition that an entry leads to, and entries from which a run
// cannot reach an end. The state x_pawl.on_budget counts as an entry.
func (c *checker) reachability(starts []Start) {
	states := c.doc.Workflow.States
	f := newFlow(states, &XPawl{})
	reached := make([]bool, len(f.states))
	if wrap := c.p.XPawl().OnBudget; states[wrap] != nil && !slices.Contains(starts, Start{State: wrap}) {
		starts = append(slices.Clip(starts), Start{State: wrap})
	}
	for _, s := range starts {
		ends := false
		for i, in := range f.markReachable(f.stateIndex(s.State)) {
			if !in {
				continue
			}
			reached[i] = true
			ends = ends || states[f.states[i].name].Ends()
		}
		if !ends {
			c.f.warn(ruleNoEnd, pointer("workflow", "states", s.State), "Add a terminal state, or rely on budgets and CancelRun.",
				"from the state %s no terminal state can be reached", quote(s.State))
		}
	}
	for i, in := range reached {
		name := f.states[i].name
		at := pointer("workflow", "states", name)
		switch {
		case !in:
			c.f.warn("PP0005-Q3", at, "Remove it, or lead an event to it.", "the state %s cannot be reached from any entry", quote(name))
		case states[name].Orchestration == "composition":
			c.f.warn(ruleComposed, at+"/orchestration", "Use a prompt with orchestration internal, external or hybrid.",
				"the state %s is orchestrated by a composition, which this product does not run: a run that could reach it does not start", quote(name))
		}
	}
}

// reportEndless reports entries whose runs may never end. If bounds are required, these findings are errors,
// otherwise warnings. A pack with errors is not analysed, because its graph is not the graph that the
// author intended.
func (c *checker) reportEndless(starts []Start) {
	if c.f.errors > 0 {
		return
	}
	tell := c.f.warn
	if c.requireBounded {
		tell = c.f.err
	}
	a := c.p.newAnalysis()
	for _, s := range starts {
		t := a.state(s.State)
		if t.Bounded {
			continue
		}
		what, hint := "can repeat for ever", "Set max_visits on a state of the cycle, or engine.budget.max_total_visits."
		if !t.Exact {
			what = "cannot be shown to end"
		}
		if c.p.XPawl().NoProgress == nil {
			hint += " With x_pawl.no_progress {window: 3} a loop that repeats itself ends before its budget."
		}
		tell("PP0005-2", pointer("workflow", "states", t.CycleStart), hint,
			"from %s the cycle through %s by the events %s %s; also limited by %s", quote(s.State), quote(t.CycleStart), names(t.Cycle), what, names(t.AlsoLimitedBy))
	}
}

// entryVariables checks that the prompts of one entry declare the same variables in the same way. It
// also reports undeclared names.
func (c *checker) entryVariables(s Start, undeclared map[string]bool) {
	prompts := c.p.promptsFrom(s)
	type decl struct{ prompt, typ, def string }
	first := map[string]decl{}
	for _, key := range prompts {
		for i := range c.doc.Prompts[key].Variables {
			v := &c.doc.Prompts[key].Variables[i]
			at := pointer("prompts", key, "variables", index(i))
			d, seen := first[v.Name]
			switch {
			case !seen:
				first[v.Name] = decl{key, v.Type, string(v.Default)}
			case d.typ != v.Type:
				c.f.err(ruleVarType, at+"/type", "Use one type, or two names: a run has one variable namespace.",
					"the variable %s is %s here and %s in the prompt %s, and one run can reach both", quote(v.Name), v.Type, d.typ, quote(d.prompt))
			case v.Default != nil && d.def != "" && d.def != string(v.Default):
				c.f.warn(ruleVarType, at+"/default", "Use one default.",
					"the default of the variable %s is not used: the prompt %s declares another one, which comes first", quote(v.Name), quote(d.prompt))
			}
		}
	}
	for _, key := range prompts {
		for _, name := range keys(c.p.uses[key].variables) {
			if _, ok := first[name]; ok || undeclared[key+"\x00"+name] {
				continue
			}
			undeclared[key+"\x00"+name] = true
			c.f.warn("PP0003-1", pointer("prompts", key, "system_template"), "Declare it under variables, or give it at start.",
				"the template uses %s, which no prompt reachable from %s declares; it is empty unless given", quote(name), quote(s.State))
		}
	}
}
