package policy

import (
	"maps"
	"slices"
)

// Allowlist is the operator's list of tools that may be called at all. The
// zero value admits nothing.
type Allowlist struct {
	all   bool
	tools map[string]bool
}

// NewAllowlist takes exact tool names; the name "*" admits every tool. No name,
// no tool: an empty list never means "everything".
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

// Names lists the tools that are admitted by name, sorted; all: others are, too.
func (l Allowlist) Names() (names []string, all bool) {
	return slices.Sorted(maps.Keys(l.tools)), l.all
}

// Admits reports whether the tool may be called.
func (l Allowlist) Admits(tool string) bool { return l.all || l.tools[tool] }
