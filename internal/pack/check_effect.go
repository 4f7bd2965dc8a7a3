package pack

import (
	"encoding/json"
	"strconv"
	"strings"
)

// effects checks what the pack says of the effects of its tools.
func (c *checker) effects(x *XPawl) {
	for _, tool := range keys(x.Tools) {
		at := func(tokens ...string) string {
			return pointer(append([]string{"workflow", "engine", "x_pawl", "tools", tool}, tokens...)...)
		}
		l := x.Tools[tool]
		for i, field := range l.Dedupe {
			c.dedupe(at("dedupe", strconv.Itoa(i)), tool, field)
		}
	}
}

// dedupe checks that a payload can have the field: a key that no call has would refuse all
// of them.
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

// badPointer: a ~ that escapes nothing.
func badPointer(p string) bool {
	plain := strings.NewReplacer("~0", "", "~1", "").Replace(p)
	return strings.Contains(plain, "~")
}

// pointersOf makes JSON pointers of fields; a name is that of a member of the payload.
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

// parametersOf are the members that the parameters of a tool declare, and those that every
// call has; nil: they do not say.
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
