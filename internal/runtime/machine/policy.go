package machine

import "slices"

// ToolPolicy restricts the tools that the run of an agent may call. The delegating run sets it. It can only remove rights that the
// agent's own pack and sidecar give. Names are exact and sorted.
type ToolPolicy struct {
	// Limited means that only the tools in Allow may be called; Allow may be empty. If it is false, all tools may be called.
	Limited bool
	Allow   []string
	// Block are tools that must not be called, even if they are in Allow.
	Block []string
	// Named means that the operator's allowlist contains the agent itself. Only in this case may the
	// delegation be sent to an agent that does not enforce policies.
	Named bool
}

// Admits reports whether the allow list of the policy admits the tool. A nil policy admits every tool.
func (p *ToolPolicy) Admits(tool string) bool {
	return p == nil || !p.Limited || slices.Contains(p.Allow, tool)
}

// Blocks reports whether the block list contains the tool.
func (p *ToolPolicy) Blocks(tool string) bool { return p != nil && slices.Contains(p.Block, tool) }

// Binds reports whether the policy has a list that an agent must enforce.
func (p *ToolPolicy) Binds() bool { return p != nil && (p.Limited || len(p.Block) > 0) }
