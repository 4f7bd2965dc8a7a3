package terms

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Bounds of what a delegated run may say it consumed; those of Usage in pawl.v1.
const (
	maxSpent      = 1_000_000_000_000
	maxSpentCalls = 1_000_000
)

// Spend adds what one record consumed. An answered delegation holds what its own run
// did, so that totals are those of the whole tree and nothing is counted twice.
func Spend(total *machine.Usage, body machine.Body) {
	var u machine.Usage
	switch b := body.(type) {
	case *machine.StepRequested:
		if b.Kind != machine.KindModel {
			u.ToolCalls = 1
		}
	case *machine.StepResolved:
		u = b.Usage
	case *machine.TurnCompleted:
		u = b.Usage
	case *machine.TurnFailed:
		u = b.Usage
	case *machine.ModelNoted:
		u = b.Usage
	}
	total.InputTokens = min(total.InputTokens+min(u.InputTokens, maxSpent), maxSpent)
	total.OutputTokens = min(total.OutputTokens+min(u.OutputTokens, maxSpent), maxSpent)
	total.CostMicro = min(total.CostMicro+min(u.CostMicro, maxSpent), maxSpent)
	total.ToolCalls = min(total.ToolCalls+min(u.ToolCalls, maxSpentCalls), maxSpentCalls)
}

// UsageToProto is the object of [DelegationURI] in the metadata of a task that has
// ended: {"usage": {...}}.
func UsageToProto(u machine.Usage) *structpb.Value {
	fields := map[string]*structpb.Value{
		"input_tokens": structpb.NewNumberValue(float64(u.InputTokens)), "output_tokens": structpb.NewNumberValue(float64(u.OutputTokens)),
		"cost_micro_usd": structpb.NewNumberValue(float64(u.CostMicro)), "tool_calls": structpb.NewNumberValue(float64(u.ToolCalls)),
	}
	usage := structpb.NewStructValue(&structpb.Struct{Fields: fields})
	return structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"usage": usage}})
}

// UsageFromProto reads it. What is missing is 0: an agent need not say. What is no
// count within the bounds is the agent's fault: taken at its word it would give budget
// back, or take all.
func UsageFromProto(value *structpb.Value) (u machine.Usage, err error) {
	fields := value.GetStructValue().GetFields()["usage"].GetStructValue().GetFields()
	count := func(name string, most int64) int64 {
		v := fields[name]
		if v == nil {
			return 0
		}
		n, ok := v.GetKind().(*structpb.Value_NumberValue)
		if !ok || !(n.NumberValue >= 0 && n.NumberValue <= float64(most)) || n.NumberValue != math.Trunc(n.NumberValue) {
			err = &machine.AgentFault{
				Kind: machine.AgentRefuses, Code: "AGENT_PROTOCOL",
				Message: fmt.Sprintf("the agent's usage.%s is no whole number from 0 to %d", name, most),
			}
			return 0
		}
		return int64(n.NumberValue)
	}
	u.InputTokens, u.OutputTokens = count("input_tokens", maxSpent), count("output_tokens", maxSpent)
	u.CostMicro, u.ToolCalls = count("cost_micro_usd", maxSpent), int(count("tool_calls", maxSpentCalls))
	return u, err
}
