package machine

import "slices"

// ToolPolicy is what the run that delegates lets the agent's run call, besides what the
// agent's own pack and sidecar say: it only ever takes away. Names are exact and sorted.
type ToolPolicy struct {
	// Limited: only tools of Allow may be called, which may be none; else all may.
	Limited bool
	Allow   []string
	// Block are tools that may not be called, whatever Allow says.
	Block []string
	// Named: the operator's allowlist names the agent itself. Only then does the delegation
	// go to an agent that keeps to no policy of others.
	Named bool
}

// Admits reports whether the allow list has the tool; a nil policy admits every tool.
func (p *ToolPolicy) Admits(tool string) bool {
	return p == nil || !p.Limited || slices.Contains(p.Allow, tool)
}

// Blocks reports whether the block list has the tool.
func (p *ToolPolicy) Blocks(tool string) bool { return p != nil && slices.Contains(p.Block, tool) }

// Binds: there is a list that an agent has to keep to.
func (p *ToolPolicy) Binds() bool { return p != nil && (p.Limited || len(p.Block) > 0) }
