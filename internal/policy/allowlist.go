package policy

import (
	"maps"
	"slices"
)

// Allowlist is the operator's list of tools that may be called. The zero value allows no tool.
type Allowlist struct {
	all   bool
	tools map[string]bool
}

// NewAllowlist returns a list of the tools with these exact names. The name "*" allows every tool. An empty list allows no tool.
func NewAllowlist(names []string) Allowlist {
	list := Allowlist{tools: make(map[string]bool, len(names))}
	for _, name := range names {
		if name == "*" {
			list.all = true
			continue
		}
		list.tools[name] = true
	}
	return list
}

// Names returns the tools that are allowed by name, sorted. all reports whether all other tools are allowed, too.
func (l Allowlist) Names() (names []string, all bool) {
	return slices.Sorted(maps.Keys(l.tools)), l.all
}

// Allows reports whether the tool may be called.
func (l Allowlist) Allows(tool string) bool { return l.all || l.tools[tool] }
