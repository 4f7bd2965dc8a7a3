package endpoint

import (
	"fmt"
	"regexp"
)

// rule returns what a real endpoint refuses in a request. "" means that it accepts the request.
type rule func(c *Case, body map[string]any) string

// rules by name. Each form has those of its own; test/conformance/README.md lists them.
var rules = map[string]rule{
	"pairs":     chatPairs,
	"unique":    chatUnique,
	"args":      chatArguments,
	"nonempty":  chatNonempty,
	"signature": chatSignature,
	"reasoning": chatReasoning,
	"thoughtid": chatThoughtID,
	"toolname":  toolNames,
	"messages":  messagesRules,
	"thinking":  messagesThinking,
	"paused":    messagesPaused,
	"responses": responsesRules,
}

// findBreach is what the endpoint of a case refuses in a request.
func findBreach(c *Case, body map[string]any) string {
	if body["stream"] != true {
		return "stream: this endpoint answers in streams alone, want true"
	}
	for _, name := range c.Rules {
		if why := rules[name](c, body); why != "" {
			return why
		}
	}
	return ""
}

// list is a field that is a list of objects; others are left out.
func list(v any) []map[string]any {
	items, _ := v.([]any)
	var all []map[string]any
	for _, item := range items {
		if one, ok := item.(map[string]any); ok {
			all = append(all, one)
		}
	}
	return all
}

// word is a field that is a text.
func word(v any) string {
	s, _ := v.(string)
	return s
}

// at is a value in objects, by the names on the way.
func at(v any, names ...string) any {
	for _, name := range names {
		fields, _ := v.(map[string]any)
		v = fields[name]
	}
	return v
}

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// toolNames refuses names of tools with other characters than letters, digits, _ and -.
func toolNames(_ *Case, body map[string]any) string {
	for i, tool := range list(body["tools"]) {
		name := word(at(tool, "function", "name"))
		if tool["function"] == nil {
			name = word(tool["name"])
		}
		if !toolName.MatchString(name) {
			return fmt.Sprintf("Invalid 'tools[%d].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$', not %q", i, name)
		}
	}
	return ""
}

// partOfCall is the part of the case that made a call of an id; the last one of several, as a round
// may be given again.
func (c *Case) partOfCall(id string) (round *Round, part *Part) {
	for _, r := range c.Rounds {
		for i := range r.Parts {
			if r.Parts[i].Call != "" && r.Parts[i].ID == id {
				round, part = r, &r.Parts[i]
			}
		}
	}
	return round, part
}
