package pack

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// effects checks the settings of the pack that are about effects of tools.
func (c *checker) effects(x *XPawl) {
	for _, tool := range keys(x.Tools) {
		at := func(tokens ...string) string {
			return pointer(append([]string{"workflow", "engine", "x_pawl", "tools", tool}, tokens...)...)
		}
		l := x.Tools[tool]
		for i, field := range l.Dedupe {
			c.dedupe(at("dedupe", strconv.Itoa(i)), tool, field)
		}
		switch {
		case l.OnUnknown == "reconcile" && l.Reconcile == "":
			c.f.err(ruleXPawl, at("on_unknown"), `Set "reconcile" to a tool.`, "on_unknown of %s is \"reconcile\", but no reconcile tool is set", quote(tool))
		case l.Reconcile != "" && l.OnUnknown != "reconcile":
			c.f.err(ruleXPawl, at("reconcile"), `Set "on_unknown": "reconcile".`, "the reconcile tool is never called: on_unknown of %s is %s", quote(tool), quote(cmp.Or(l.OnUnknown, "return")))
		case l.Reconcile != "" && c.isMember(tool):
			c.f.err(ruleXPawl, at("reconcile"), "", "%s is an agent: the sidecar asks the agent itself for the outcome of a task", quote(tool))
		}
		c.effectTool(x, at("reconcile"), l.Reconcile, true)
		c.effectTool(x, at("compensate"), l.Compensate, false)
	}
	if undone := func(l ToolLimits) bool { return l.Compensate != "" }; len(x.CompensateOn) > 0 && !slices.ContainsFunc(slices.Collect(maps.Values(x.Tools)), undone) {
		c.f.warn(ruleXPawl, pointer("workflow", "engine", "x_pawl", "compensate_on"), "Set \"compensate\" of a tool.", "no tool has a compensate tool, so these events compensate nothing")
	}
	for i, event := range x.CompensateOn {
		if !c.declaresEvent(event) {
			c.f.err(ruleXPawlRef, pointer("workflow", "engine", "x_pawl", "compensate_on", strconv.Itoa(i)), "Check the spelling.", "no state declares the event %s", quote(event))
		}
	}
}

func (c *checker) declaresEvent(event string) bool {
	for _, s := range c.doc.Workflow.States {
		if s != nil && s.OnEvent[event] != "" {
			return true
		}
	}
	return false
}

// effectTool checks a tool that another tool names as its reconcile tool (which finds out whether a call had an effect) or its compensate
// tool (which reverses the effect). It must be a tool of the pack. It must not name these tools itself, except that a compensate tool may
// name a reconcile tool. It must not need an approval, have a business key, or require a parameter that the sidecar does not send. asks
// means that it is named as a reconcile tool.
func (c *checker) effectTool(x *XPawl, at, name string, asks bool) {
	if name == "" {
		return
	}
	if c.doc.Tools[name] == nil || c.isMember(name) {
		c.f.err(ruleXPawlRef, at, "Declare it in tools.", "%s is not a tool of the pack; tools: %s", quote(name), c.toolNames())
		return
	}
	switch l := x.Tools[name]; {
	case asks && l.Reconcile != "":
		c.f.err(ruleXPawl, at, "", "%s is a reconcile tool and must not have a reconcile tool itself", quote(name))
	case l.Compensate != "":
		c.f.err(ruleXPawl, at, "", "%s is a reconcile or compensate tool and must not have a compensate tool itself", quote(name))
	case l.Approve != "" && l.Approve != approveNever:
		c.f.err(ruleXPawl, at, "Declare another tool for this purpose.", "the sidecar itself calls %s, and such calls cannot be approved, but approve is set", quote(name))
	case len(l.Dedupe) > 0:
		c.f.err(ruleXPawl, at, "", "%s is called once for each call of the other tool and must not have a business key (dedupe)", quote(name))
	}
	for _, field := range keys(requiredOf(c.doc.Tools[name])) {
		if !slices.Contains(effectFields, field) {
			c.f.err(ruleXPawl, at, "Its payload has "+strings.Join(effectFields, ", ")+".", "the tool %s requires the parameter %s, which the calls of the sidecar do not contain", quote(name), quote(field))
		}
	}
}

// effectFields are the payload fields in the sidecar's own calls of reconcile tools and compensate tools.
var effectFields = []string{"idempotency_key", "tool", "payload", "outcome", "result"}

func requiredOf(t *Tool) map[string]bool {
	_, required := parametersOf(t.Parameters)
	return required
}

// dedupe reports an error if the parameters of a tool do not declare a field that its dedupe setting names, and a warning if they do not
// require it. Calls without the field are refused.
func (c *checker) dedupe(at, tool, field string) {
	if strings.HasPrefix(field, "/") && badPointer(field) {
		c.f.err(ruleXPawl, at, "~ is written ~0, and / is written ~1.", "%s is no JSON pointer (RFC 6901)", quote(field))
		return
	}
	declared := c.doc.Tools[tool]
	if declared == nil {
		return
	}
	name, deeper, _ := strings.Cut(pointersOf([]string{field})[0][1:], "/")
	name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
	known, required := parametersOf(declared.Parameters)
	switch {
	case known == nil:
	case !known[name]:
		c.f.err(ruleXPawlRef, at, "Check the spelling: calls without the field are refused.",
			"the tool %s has no parameter %s; its parameters: %s", quote(tool), quote(name), names(keys(known)))
	case !required[name] && deeper == "":
		c.f.warn(ruleXPawlRef, at, "Add it to the required parameters: calls without it are refused.",
			"the parameter %s of the tool %s is not required", quote(name), quote(tool))
	}
}

// badPointer reports whether a pointer has a ~ that is not part of an escape.
func badPointer(p string) bool {
	plain := strings.NewReplacer("~0", "", "~1", "").Replace(p)
	return strings.Contains(plain, "~")
}

// pointersOf returns the fields as JSON pointers. A plain name is the name of a member of the payload.
func pointersOf(fields []string) []string {
	var out []string
	for _, f := range fields {
		if !strings.HasPrefix(f, "/") {
			f = "/" + strings.ReplaceAll(strings.ReplaceAll(f, "~", "~0"), "/", "~1")
		}
		out = append(out, f)
	}
	return out
}

// parametersOf returns the members of a payload that a tool's schema declares, and the members that it
// requires. Both are nil if the schema declares none.
func parametersOf(schema json.RawMessage) (known, required map[string]bool) {
	var doc struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if json.Unmarshal(schema, &doc) != nil || doc.Properties == nil {
		return nil, nil
	}
	known = make(map[string]bool, len(doc.Properties))
	for name := range doc.Properties {
		known[name] = true
	}
	return known, set(doc.Required)
}
