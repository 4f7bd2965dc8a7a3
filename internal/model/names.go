package model

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/pawl-dev/pawl/internal/strictjson"
)

// wireName matches names that providers accept for tools, and ids that Anthropic accepts for calls. notWireName
// matches a character that is not allowed in them.
var (
	wireName    = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	notWireName = regexp.MustCompile(`[^a-zA-Z0-9_-]`)
)

// names maps the names of the tools to the names that an endpoint gets, and back.
type names struct{ toEndpoint, fromEndpoint map[string]string }

// namesOf gives each tool a name that endpoints accept. This is its own name if that is valid.
func namesOf(tools []Tool) names {
	n := names{toEndpoint: map[string]string{}, fromEndpoint: map[string]string{}}
	for _, t := range tools {
		if wireName.MatchString(t.Name) {
			n.toEndpoint[t.Name], n.fromEndpoint[t.Name] = t.Name, t.Name
		}
	}
	for _, t := range tools {
		if n.toEndpoint[t.Name] != "" {
			continue
		}
		base := wiredName(t.Name)
		name := base
		for i := 2; n.fromEndpoint[name] != ""; i++ {
			name = fmt.Sprintf("%.60s_%d", base, i)
		}
		n.toEndpoint[t.Name], n.fromEndpoint[name] = name, t.Name
	}
	return n
}

func wiredName(name string) string {
	return fmt.Sprintf("%.64s", notWireName.ReplaceAllString(name, "_"))
}

// toWire returns the name that the endpoint gets for a tool.
func (n names) toWire(name string) string {
	if out := n.toEndpoint[name]; out != "" {
		return out
	}
	if name == "" {
		return "_"
	}
	return wiredName(name)
}

// fromWire returns the name that the tool has in the pack.
func (n names) fromWire(name string) string {
	if in := n.fromEndpoint[name]; in != "" {
		return in
	}
	return name
}

// wireID returns a call id that the endpoint accepts. Ids of other endpoints may be longer or contain other characters.
func wireID(id string) string {
	if wireName.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}

// choice replaces the tool names in a tool_choice by the names that the endpoint gets.
func (n names) choice(value json.RawMessage) json.RawMessage {
	v := parseUnambiguous(value)
	for _, path := range []string{"function.name", "name"} {
		name := textAt(v, path)
		if name == "" || n.toWire(name) == name || !v.IsObject() {
			continue
		}
		var choice map[string]json.RawMessage
		if strictjson.Decode(value, &choice, strictjson.Open) != nil {
			return value
		}
		quoted := json.RawMessage(encodePlain(n.toWire(name)))
		if path == "name" {
			choice["name"] = quoted
		} else {
			choice["function"] = json.RawMessage(encodePlain(object{"name": n.toWire(name)}))
		}
		return encodePlain(choice)
	}
	return value
}
