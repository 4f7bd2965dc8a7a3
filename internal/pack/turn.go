package pack

import "encoding/json"

// turnTokens returns the number of tokens that one turn of an agent is assumed to consume at most: max_tokens of its prompt for the
// answer, and the same number for the request. The prompt is that of the state in which the agent starts, or its own. The result is 0 if
// the prompt sets no usable bound, or if the name is a tool.
func (p *Pack) turnTokens(name string, agent bool) int64 {
	if !agent {
		return 0
	}
	if start := p.agentStart(name); !start.Prompt && p.Doc.Workflow.States[start.State] != nil {
		name = p.Doc.Workflow.States[start.State].PromptTask
	}
	var parameters struct {
		MaxTokens json.Number `json:"max_tokens"`
	}
	if prompt := p.Doc.Prompts[name]; prompt == nil || json.Unmarshal(prompt.Parameters, &parameters) != nil {
		return 0
	}
	if most, err := parameters.MaxTokens.Int64(); err == nil && most > 0 && most <= 1<<40 {
		return 2 * most
	}
	return 0
}
