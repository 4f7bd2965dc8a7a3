package machine

import "slices"

// ToolPolicy restricts the tools that the run of an agent may call, set by the delegating run. It only
// removes rights given by the agent's own pack and sidecar. Names are exact and sorted.
type ToolPolicy struct {
	// Limited means that only the tools in Allow may be called, which may be none; otherwise all may.
	Limited bool
	Allow   []string
	// Block are tools that may not be called, even if they are in Allow.
	Block []string
	// Named means that the operator's allowlist names the agent itself. Only then may the delegation go to an
	// agent that does not enforce the policies of others.
	Named bool
}

// Admits reports whether the allow list has the tool; a nil policy admits every tool.
func (p *ToolPolicy) Admits(tool string) bool {
	return p == nil || !p.Limited || slices.Contains(p.Allow, tool)
}

// Blocks reports whether the block list has the tool.
func (p *ToolPolicy) Blocks(tool string) bool { return p != nil && slices.Contains(p.Block, tool) }

// Binds reports whether there is a list that an agent has to enforce.
func (p *ToolPolicy) Binds() bool { return p != nil && (p.Limited || len(p.Block) > 0) }
