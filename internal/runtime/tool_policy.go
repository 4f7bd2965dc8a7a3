package runtime

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// toolPolicy returns the tool policy of the current state's prompt, or nil.
func (t *execution) toolPolicy() *pack.ToolPolicy {
	return t.program.Pack.Doc.Prompts[t.program.Graph.States[t.state.Current].Prompt].ToolPolicy
}

// roundDenied returns the refusal of a round that the turn has not requested yet, if it has max_rounds answers. An answer that was
// rejected does not count, because its round is requested again.
func (t *execution) roundDenied(cmd *machine.RequestModel) *machine.Denial {
	policy := t.toolPolicy()
	if policy == nil || policy.MaxRounds == nil || t.state.Turn == nil || rules.Round(t.state, cmd) != nil {
		return nil
	}
	answered := int64(0)
	for i := range t.state.Steps {
		if rules.IsTurnAnswer(&t.state.Steps[i], t.state.Turn.Seq) {
			answered++
		}
	}
	if answered < *policy.MaxRounds {
		return nil
	}
	return &machine.Denial{
		Code:    machine.MaxRounds,
		Message: fmt.Sprintf("the turn has %d answers of a model, and tool_policy.max_rounds is %d", answered, *policy.MaxRounds),
	}
}

// choiceDenied returns the refusal of a call that a model made although tool_policy.tool_choice is none.
func (t *execution) choiceDenied(r *machine.StepRequest) *machine.Denial {
	if policy := t.toolPolicy(); r.Call == nil || policy == nil || policy.ToolChoice != "none" {
		return nil
	}
	return &machine.Denial{Code: machine.ToolBlocked, Message: "tool_policy.tool_choice of the prompt is none: a model calls no tool here"}
}
