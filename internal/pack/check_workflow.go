package pack

import (
	"mime"
	"regexp"
	"slices"
	"strings"
)

var pascalCase = regexp.MustCompile(`^[A-Z][a-zA-Z0-9]*$`)

// workflow checks the state machine (PromptPack RFC 0005 and RFC 0009).
func (c *checker) workflow() {
	w := c.doc.Workflow
	if w == nil {
		return
	}
	if w.Version > 2 {
		c.f.err("PP0009-Q1", "/workflow/version", "Use version 2, or a newer sidecar.",
			"workflow version %d is not understood; allowed: 1, 2", w.Version)
	}
	if w.Entry != "" && w.States[w.Entry] == nil {
		c.f.err("PP0005-1", "/workflow/entry", "", "the entry %s is not a state; states: %s", quote(w.Entry), c.stateNames())
	}
	for _, name := range keys(w.States) {
		c.state(name, w.States[name])
	}
	c.control()
	c.slots()
	c.forcedExits()
	c.budget()
	c.engine()
	c.xpawl()
}

// state checks one state by itself.
func (c *checker) state(name string, s *State) {
	at := func(tokens ...string) string {
		return pointer(append([]string{"workflow", "states", name}, tokens...)...)
	}
	c.stateWork(name, s, at)
	for _, event := range keys(s.OnEvent) {
		if !pascalCase.MatchString(event) {
			c.f.warn("PP0005-3", at("on_event", event), "Write it like GoalDefined.", "the event %s is not PascalCase", quote(event))
		}
		if target := s.OnEvent[event]; c.doc.Workflow.States[target] == nil {
			c.f.err("PP0005-2", at("on_event", event), "", "the event %s leads to %s, which is not a state; states: %s",
				quote(event), quote(target), c.stateNames())
		}
	}
	switch {
	case s.Terminal && len(s.OnEvent) > 0:
		c.f.warn("PP0009-1", at("on_event"), "Remove on_event, or terminal.", "the events of the terminal state %s never fire", quote(name))
	case !s.Terminal && len(s.OnEvent) == 0:
		c.f.warn("PP0009-7", at(), "Say terminal: true, or declare events.", "the state %s has no events and is taken as terminal", quote(name))
	}
	if s.Terminal || len(s.OnEvent) == 0 {
		c.warnReofferedTools(name, s, at("prompt_task"))
	}
	c.stateSkills(at("skills"), s.Skills)
	c.stateArtifacts(name, s)
}

// warnReofferedTools reports tools that a terminal state offers to a model although a state with events offers them too. It leaves out
// tools with a business key (dedupe). A terminal state also has a turn, and a model that calls the tools again repeats their effects.
func (c *checker) warnReofferedTools(name string, s *State, at string) {
	if c.earlier == nil {
		c.earlier = map[string]bool{}
		for _, state := range c.doc.Workflow.States {
			if !state.Terminal && len(state.OnEvent) > 0 {
				for _, tool := range c.offeredTools(state) {
					c.earlier[tool] = true
				}
			}
		}
	}
	for _, tool := range c.offeredTools(s) {
		if c.earlier[tool] && len(c.p.XPawl().Tools[tool].Dedupe) == 0 {
			c.f.warn(ruleOffered, at, "Give the terminal state a prompt without the tool, or the tool x_pawl.tools.TOOL.dedupe if it may act once only.",
				"the terminal state %s offers the tool %s again, and a model that calls what it is offered does its effect twice", quote(name), quote(tool))
		}
	}
}

// offeredTools returns the tools of the pack that a state's turns may call.
func (c *checker) offeredTools(s *State) []string {
	p := c.doc.Prompts[s.PromptTask]
	if p == nil || p.ToolPolicy != nil && p.ToolPolicy.ToolChoice == "none" {
		return nil
	}
	var tools []string
	for _, tool := range p.Tools {
		if c.doc.Tools[tool] != nil && (p.ToolPolicy == nil || !slices.Contains(p.ToolPolicy.Blocklist, tool)) {
			tools = append(tools, tool)
		}
	}
	return tools
}

// stateWork checks what a state executes: a prompt, or a composition (PromptPack RFC 0010).
func (c *checker) stateWork(name string, s *State, at func(...string) string) {
	if s.Orchestration == "composition" {
		c.compositionState(name, s, at)
		return
	}
	if s.Composition != "" {
		c.f.err("PP0010-3", at("composition"), "Remove it, or set orchestration: composition.",
			"the state %s names a composition but its orchestration is %s", quote(name), quote(s.Orchestration))
	}
	switch {
	case s.PromptTask == "":
		c.f.err("PP0010-3", at(), "Add prompt_task.", "the state %s has no prompt_task", quote(name))
	case c.doc.Prompts[s.PromptTask] == nil:
		code := "PP0005-2"
		if name == c.doc.Workflow.Entry {
			code = "PP0005-1"
		}
		c.f.err(code, at("prompt_task"), "", "the prompt_task %s is not a prompt; prompts: %s", quote(s.PromptTask), c.promptNames())
	}
}

// stateArtifacts checks the artifact declarations of a state, and the artifacts that its prompt uses.
func (c *checker) stateArtifacts(name string, s *State) {
	for _, a := range keys(s.Artifacts) {
		at := pointer("workflow", "states", name, "artifacts", a)
		if !identifier(a) {
			c.f.warn(ruleUnnameable, at, "Use letters, digits and underscores.", "no template can name the artifact %s", quote(a))
		}
		if _, _, err := mime.ParseMediaType(s.Artifacts[a].Type); s.Artifacts[a].Type != "" && (err != nil || !strings.Contains(s.Artifacts[a].Type, "/")) {
			c.f.warn(ruleMedia, at+"/type", "For example text/plain or application/json.",
				"the artifact type %s is no media type; values are taken as bytes", quote(s.Artifacts[a].Type))
		}
	}
	use := c.p.uses[s.PromptTask]
	// The remaining checks only warn. A full list of findings has no place for warnings.
	if use == nil || c.f.isFull() {
		return
	}
	for _, a := range keys(use.artifacts) {
		if c.p.slots[a] && s.Artifacts[a] == nil {
			c.f.warn("PP0009-4", pointer("workflow", "states", name, "prompt_task"), "Declare it in this state too, for the reader; the namespace is the workflow's.",
				"the prompt %s uses the artifact %s, which the state %s does not declare", quote(s.PromptTask), quote(a), quote(name))
		}
	}
}

// slots checks that all declarations of an artifact agree, because an artifact name means one artifact in the whole workflow.
func (c *checker) slots() {
	first := map[string]string{}
	states := c.doc.Workflow.States
	for _, name := range keys(states) {
		for _, a := range keys(states[name].Artifacts) {
			other, seen := first[a]
			if !seen {
				first[a] = name
				continue
			}
			x, y := states[other].Artifacts[a], states[name].Artifacts[a]
			if mediaType(x.Type) != mediaType(y.Type) || modeOf(x.Mode) != modeOf(y.Mode) {
				c.f.err(ruleSlot, pointer("workflow", "states", name, "artifacts", a), "Use the same type and mode in all states.",
					"the artifact %s is %s/%s here and %s/%s in the state %s; it is one slot", quote(a), y.Type, modeName(y.Mode), x.Type, modeName(x.Mode), quote(other))
			}
		}
	}
}

// mediaType returns a media type in its normal form, so that different spellings are equal. A text that is not a media type is returned
// unchanged.
func mediaType(text string) string {
	base, parameters, err := mime.ParseMediaType(text)
	if err != nil {
		return text
	}
	return mime.FormatMediaType(base, parameters)
}

func modeName(mode string) string {
	if mode == "" {
		return "replace"
	}
	return mode
}

// forcedExits checks the forced exit (on_max_visits) of each state: its target exists, the state has a
// bound that can force it, and the forced exits of several states do not lead in a circle.
func (c *checker) forcedExits() {
	states := c.doc.Workflow.States
	circles := c.forcedCircles()
	for _, name := range keys(states) {
		s := states[name]
		if s.OnMaxVisits == nil {
			continue
		}
		at, target := pointer("workflow", "states", name, "on_max_visits"), *s.OnMaxVisits
		switch {
		case states[target] == nil:
			c.f.err("PP0009-2", at, "", "on_max_visits names %s, which is not a state; states: %s", quote(target), c.stateNames())
		case s.MaxVisits == 0 && len(c.p.XPawl().MaxIterations[name]) == 0 && c.p.XPawl().NoProgress == nil:
			c.f.warn(ruleNoGuard, at, "Add max_visits.", "on_max_visits of the state %s has no max_visits beside it and never applies", quote(name))
		case circles[name]:
			c.f.err("PP0009-2", at, "Let one of them lead to a state without max_visits.",
				"the forced exits go in a circle: %s", names(c.forcedChain(name)))
		case s.MaxVisits > 0 && states[target].MaxVisits > 0:
			c.f.warn("PP0009-2", at, "", "the forced exit of %s is guarded itself; when both are used up the run goes on to %s or ends",
				quote(name), names(c.forcedChain(name)[1:]))
		}
	}
}

// guardedExit returns the target of the forced exit of a state with max_visits. It returns "" if the state has no
// max_visits or no forced exit.
func (c *checker) guardedExit(name string) string {
	s := c.doc.Workflow.States[name]
	if s == nil || s.MaxVisits == 0 || s.OnMaxVisits == nil {
		return ""
	}
	return *s.OnMaxVisits
}

// forcedCircles returns the states whose forced exit, followed from state to state, leads back to them.
func (c *checker) forcedCircles() map[string]bool {
	const open, done = 1, 2
	color, circles := map[string]int{}, map[string]bool{}
	for name := range c.doc.Workflow.States {
		var chain []string
		at := name
		for at != "" && color[at] == 0 {
			color[at] = open
			chain = append(chain, at)
			at = c.guardedExit(at)
		}
		if at != "" && color[at] == open {
			for i := slices.Index(chain, at); i < len(chain); i++ {
				circles[chain[i]] = true
			}
		}
		for _, n := range chain {
			color[n] = done
		}
	}
	return circles
}

// forcedChain returns the states that a run tries in order when the visits of a state, and of the targets of forced
// exits, are used up. It returns at most 32 of them.
func (c *checker) forcedChain(name string) []string {
	chain := []string{name}
	for at := c.guardedExit(name); at != "" && len(chain) < 32; at = c.guardedExit(at) {
		chain = append(chain, at)
		if at == name {
			break
		}
	}
	return chain
}

// budget reports unknown budgets and agents that no budget allows. It compares the budget of the whole run with the max_visits of the
// states.
func (c *checker) budget() {
	b := c.p.budget()
	if b == nil {
		return
	}
	if n := c.f.root.Get("workflow").Get("engine").Get("budget"); n != nil {
		for _, m := range n.Members {
			if !slices.Contains([]string{"max_total_visits", "max_tool_calls", "max_wall_time_sec"}, m.Name) {
				c.f.reportTightened(ruleBudgetKey, pointer("workflow", "engine", "budget", m.Name), "Check the spelling.",
					"the budget %s is not known%s; allowed: max_total_visits, max_tool_calls, max_wall_time_sec", quote(m.Name), correctPlace(m.Name))
			}
		}
	}
	c.reportUncallableAgents(b)
	if b.MaxTotalVisits == nil || c.doc.Workflow.States[c.doc.Workflow.Entry] == nil {
		return
	}
	total := *b.MaxTotalVisits
	sum, at := int64(0), "/workflow/engine/budget/max_total_visits"
	for _, name := range c.p.reachableStates(c.doc.Workflow.Entry) {
		n := c.doc.Workflow.States[name].MaxVisits
		sum = addSat(sum, n)
		if n > total {
			c.f.warn("PP0009-5", pointer("workflow", "states", name, "max_visits"), "", "max_visits %d of the state %s can never be reached: max_total_visits is %d", n, quote(name), total)
		}
	}
	if sum > total {
		c.f.warn("PP0009-5", at, "", "max_total_visits %d is less than the %d visits that the guards of the reachable states allow", total, sum)
	}
}

// engine reports settings in engine that this product does not use.
func (c *checker) engine() {
	n := c.f.root.Get("workflow").Get("engine")
	if n == nil {
		return
	}
	for _, m := range n.Members {
		if m.Name != "budget" && m.Name != "x_pawl" {
			c.f.warn("PP0005-4", pointer("workflow", "engine", m.Name), "Settings of this product go under x_pawl.",
				"the engine setting %s is not known and has no effect%s; known: budget, x_pawl", quote(m.Name), correctPlace(m.Name))
		}
	}
}
