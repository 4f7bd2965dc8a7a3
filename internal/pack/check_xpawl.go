package pack

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/internal/pack/cost"
)

// xpawl checks that the names in x_pawl exist. The schema checks the structure of x_pawl.
func (c *checker) xpawl() {
	x := c.p.XPawl()
	at := func(tokens ...string) string {
		return pointer(append([]string{"workflow", "engine", "x_pawl"}, tokens...)...)
	}
	for _, state := range keys(x.MaxIterations) {
		for _, event := range keys(x.MaxIterations[state]) {
			c.xpawlEvent(at("max_iterations", state, event), state, event)
		}
	}
	for _, state := range keys(x.Timeouts) {
		c.xpawlEvent(at("timeouts", state, "event"), state, x.Timeouts[state].Event)
	}
	for _, l := range x.Tools {
		c.listed[l.Reconcile], c.listed[l.Compensate] = true, true // the sidecar itself calls these tools
	}
	delete(c.listed, "")
	for _, tool := range keys(x.ResultBindings) {
		c.xpawlTool(at("result_bindings", tool), tool)
		if a := x.ResultBindings[tool]; !c.p.slots[a] {
			c.f.err(ruleXPawlRef, at("result_bindings", tool), "Declare the artifact in a state.",
				"the tool %s is bound to the artifact %s, which no state declares; artifacts: %s", quote(tool), quote(a), list(c, "slots", c.p.slots))
		}
	}
	for _, tool := range keys(x.Tools) {
		c.xpawlTool(at("tools", tool), tool)
		c.approval(at("tools", tool), x.Tools[tool])
		if server, name, ok := strings.Cut(tool, "/"); x.Tools[tool].MCPDigest != "" && (!ok || server == "" || name == "") {
			c.f.err(ruleXPawl, at("tools", tool, "mcp_digest"), "Remove it.", "%s is no tool of an MCP server, whose name is SERVER/TOOL", quote(tool))
		}
	}
	for _, state := range keys(x.Outcome) {
		switch s := c.doc.Workflow.States[state]; {
		case s == nil:
			c.f.err(ruleXPawlRef, at("outcome", state), "", "%s is not a state; states: %s", quote(state), c.stateNames())
		case !s.Ends():
			c.f.err(ruleXPawlRef, at("outcome", state), "Make the state terminal.",
				"the state %s is not terminal: no run ends by completing it", quote(state))
		}
	}
	for i, state := range x.Chat {
		if c.doc.Workflow.States[state] == nil {
			c.f.err(ruleXPawlRef, at("chat", strconv.Itoa(i)), "", "%s is not a state; states: %s", quote(state), c.stateNames())
		}
	}
	for _, prompt := range keys(x.Models) {
		if c.doc.Prompts[prompt] == nil && prompt != anyPrompt {
			c.f.err(ruleXPawlRef, at("models", prompt), `"*" is for all other prompts.`,
				"%s is not a prompt; prompts: %s", quote(prompt), names(keys(c.doc.Prompts)))
		}
	}
	c.outputs(x)
	c.effects(x)
	c.sensitive(x.Sensitive)
	c.prices(x)
	c.costs(x)
	c.retries(x)
}

// outputs checks the schemas of turn outputs.
func (c *checker) outputs(x *XPawl) {
	all := cost.NewPatterns()
	for _, prompt := range keys(x.OutputSchema) {
		at := pointer("workflow", "engine", "x_pawl", "output_schema", prompt)
		if c.doc.Prompts[prompt] == nil {
			c.f.err(ruleXPawlRef, at, "", "%s is not a prompt; prompts: %s", quote(prompt), names(keys(c.doc.Prompts)))
		}
		s, err := compileParameters("output of "+prompt, all, x.OutputSchema[prompt])
		if err != nil {
			for _, f := range schemaFaults(err) {
				c.f.err(ruleXPawl, at+f.pointer, "", "not a usable JSON Schema: %s", f.msg)
			}
			continue
		}
		if err := cost.Check(s.compiled); err != nil {
			c.f.err(ruleXPawl, at, "", "the schema costs too much to check: %v", err)
		}
	}
}

// retries checks the retry settings of turns, tools and model calls.
func (c *checker) retries(x *XPawl) {
	at := func(tokens ...string) string {
		return pointer(append([]string{"workflow", "engine", "x_pawl"}, tokens...)...)
	}
	check := func(r *Retry, tokens ...string) {
		if r != nil && r.InitialSec != nil && r.MaxSec != nil && *r.InitialSec > *r.MaxSec {
			c.f.err(ruleXPawl, at(append(tokens, "initial_sec")...), "", "initial_sec %v is more than max_sec %v", *r.InitialSec, *r.MaxSec)
		}
	}
	check(x.Retry, "retry")
	if x.ModelCalls != nil {
		check(x.ModelCalls.Retry, "model_calls", "retry")
	}
	for _, tool := range keys(x.Tools) {
		l := x.Tools[tool]
		check(l.Retry, "tools", tool, "retry")
		if l.Attempts != nil && l.Retry != nil && l.Retry.MaxAttempts != nil {
			c.f.err(ruleXPawl, at("tools", tool, "attempts"), "Say it once, under retry.",
				"attempts is %d and retry.max_attempts is %d", *l.Attempts, *l.Retry.MaxAttempts)
		}
	}
}

// maxModelName bounds the name of a model, in bytes. The API (pawl.v1) has the same bound.
const maxModelName = 256

// prices checks the names of models. It reports models that have no price in a pack with a cost budget.
// If the operator has no price for them either, no run of the pack can start.
func (c *checker) prices(x *XPawl) {
	for _, model := range keys(x.Prices) {
		if model == "" || len(model) > maxModelName {
			c.f.err(ruleXPawl, pointer("workflow", "engine", "x_pawl", "prices", model), "",
				"the name of a model has 1 to %d bytes, got %d", maxModelName, len(model))
		}
	}
	if x.MaxCostUSD == nil {
		return
	}
	for _, key := range keys(c.doc.Prompts) {
		if model := x.ModelOf(key); model != "" {
			if _, ok := x.Prices[model]; !ok {
				c.reportUnpriced(x, pointer("workflow", "engine", "x_pawl", "models"), model)
			}
			continue
		}
		for _, model := range keys(c.doc.Prompts[key].ModelOverrides) {
			if _, ok := x.Prices[model]; !ok {
				c.reportUnpriced(x, pointer("prompts", key, "model_overrides", model), model)
			}
		}
	}
}

func (c *checker) reportUnpriced(x *XPawl, at, model string) {
	c.f.warn(rulePrice, at, "Add it to workflow.engine.x_pawl.prices, or to the file of the sidecar's --prices.",
		"max_cost_usd is set, and x_pawl.prices has no price of the model %s; priced: %s", quote(model), names(keys(x.Prices)))
}

// xpawlEvent checks a state and one of its events.
func (c *checker) xpawlEvent(at, state, event string) {
	s := c.doc.Workflow.States[state]
	switch {
	case s == nil:
		c.f.err(ruleXPawlRef, at, "", "%s is not a state; states: %s", quote(state), c.stateNames())
	case s.OnEvent[event] == "":
		c.f.err(ruleXPawlRef, at, "", "the state %s does not declare the event %s; its events: %s", quote(state), quote(event), names(keys(s.OnEvent)))
	case s.Terminal:
		c.f.warn(ruleXPawlRef, at, "", "the events of the terminal state %s never fire", quote(state))
	}
}

// xpawlTool reports a tool that no prompt lists. Tools that the sidecar itself calls count as listed. A tool that does
// not exist is an error: with a misspelled name, an approval or a limit would not apply to the tool that is meant.
func (c *checker) xpawlTool(at, tool string) {
	if c.listed[tool] {
		return
	}
	if c.doc.Tools[tool] == nil && !slices.Contains(c.p.Members(), tool) {
		c.f.err(ruleXPawlRef, at, "Check the spelling.", "the tool %s is not declared; tools: %s; members: %s", quote(tool), c.toolNames(), c.memberNames())
		return
	}
	c.f.warn(ruleXPawlRef, at, "Check the spelling.", "no prompt lists the tool %s", quote(tool))
}

// sensitive checks that the names in x_pawl.sensitive exist. A value with a misspelled name would stay
// readable.
func (c *checker) sensitive(s *Sensitive) {
	if s == nil {
		return
	}
	at := func(kind string, i int) string {
		return pointer("workflow", "engine", "x_pawl", "sensitive", kind, strconv.Itoa(i))
	}
	variables := map[string]bool{}
	for key, prompt := range c.doc.Prompts {
		for i := range prompt.Variables {
			variables[prompt.Variables[i].Name] = true
		}
		if use := c.p.uses[key]; use != nil {
			for name := range use.variables {
				variables[name] = true
			}
		}
	}
	for _, kind := range []struct {
		name  string
		given []string
		known map[string]bool
		where string
	}{
		{"variables", s.Variables, variables, "no prompt declares or uses"},
		{"artifacts", s.Artifacts, c.p.slots, "no state declares"},
		{"tools", s.Tools, c.listed, "no prompt lists"},
	} {
		for i, name := range kind.given {
			if !kind.known[name] {
				c.f.err(ruleXPawlRef, at(kind.name, i), "Check the spelling: what is not found here would be readable.",
					"%s is sensitive, and %s it; known: %s", quote(name), kind.where, names(keys(kind.known)))
			}
		}
	}
}
