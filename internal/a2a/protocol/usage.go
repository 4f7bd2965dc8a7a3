package protocol

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// These constants limit the usage that a delegated run may report. Usage in pawl.v1 has the same
// limits.
const (
	maxUsage          = 1_000_000_000_000
	maxUsageToolCalls = 1_000_000
)

// AddUsage adds the consumption of one record. An answered delegation contains the usage of its own
// run. So a total includes the whole tree of runs and counts each run once.
func AddUsage(total *machine.Usage, body machine.Body) {
	var u machine.Usage
	switch b := body.(type) {
	case *machine.StepRequested:
		// Calls that the sidecar itself makes in order to inquire about an effect or to undo it have no
		// limit and are not counted.
		if b.Kind != machine.KindModel && b.About == nil {
			u.ToolCalls = 1
		}
	case *machine.StepResolved:
		u = b.Usage
	case *machine.TurnCompleted:
		u = b.Usage
	case *machine.TurnFailed:
		u = b.Usage
	case *machine.ModelUpdated:
		u = b.Usage
	case *machine.StepCancelled:
		u = b.Usage
	}
	total.InputTokens = min(total.InputTokens+min(u.InputTokens, maxUsage), maxUsage)
	total.OutputTokens = min(total.OutputTokens+min(u.OutputTokens, maxUsage), maxUsage)
	total.CostMicro = min(total.CostMicro+min(u.CostMicro, maxUsage), maxUsage)
	total.ToolCalls = min(total.ToolCalls+min(u.ToolCalls, maxUsageToolCalls), maxUsageToolCalls)
}

// UsageToProto converts the usage of a run for the metadata of an ended task. Under [DelegationURI] it
// is {"usage": {...}}.
func UsageToProto(u machine.Usage) *structpb.Value {
	fields := map[string]*structpb.Value{
		"input_tokens": structpb.NewNumberValue(float64(u.InputTokens)), "output_tokens": structpb.NewNumberValue(float64(u.OutputTokens)),
		"cost_micro_usd": structpb.NewNumberValue(float64(u.CostMicro)), "tool_calls": structpb.NewNumberValue(float64(u.ToolCalls)),
	}
	usage := structpb.NewStructValue(&structpb.Struct{Fields: fields})
	return structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"usage": usage}})
}

// UsageFromProto converts the usage that an agent reports. metered reports whether the agent reports any. untold are
// the figures that the agent does not report. The caller then counts the whole lent budget for them. A figure that is
// not a count within the limits is an error of the agent, because it could increase the budget or use up all of it.
func UsageFromProto(value *structpb.Value) (u machine.Usage, metered bool, untold machine.Figures, err error) {
	usage := value.GetStructValue().GetFields()["usage"].GetStructValue()
	fields := usage.GetFields()
	count := func(name string, most int64, figure machine.Figures) int64 {
		v := fields[name]
		if v == nil {
			untold |= figure
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
	u.InputTokens, u.OutputTokens = count("input_tokens", maxUsage, machine.FigureTokens), count("output_tokens", maxUsage, machine.FigureTokens)
	u.CostMicro = count("cost_micro_usd", maxUsage, machine.FigureCost)
	u.ToolCalls = int(count("tool_calls", maxUsageToolCalls, machine.FigureToolCalls))
	return u, usage != nil, untold, err
}

// LeaseToProto converts the budget that a delegation lends to the agent's run: {"cost_micro_usd",
// "tokens", "tool_calls"}. 0 means that there is no limit.
func LeaseToProto(lease machine.Amount) *structpb.Value {
	return structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
		"cost_micro_usd": structpb.NewNumberValue(float64(min(lease.CostMicro, maxUsage))),
		"tokens":         structpb.NewNumberValue(float64(min(lease.Tokens, maxUsage))),
		"tool_calls":     structpb.NewNumberValue(float64(min(lease.ToolCalls, maxUsageToolCalls))),
	}})
}

// Lease is the JSON of a lease.
type Lease struct {
	CostMicro float64 `json:"cost_micro_usd"`
	Tokens    float64 `json:"tokens"`
	ToolCalls float64 `json:"tool_calls"`
}

// Amount converts the lease, the budget that the sender lends to the new run. An invalid figure is an error of the
// sender, because a run must not begin with a limit that its sender did not intend.
func (l *Lease) Amount() (machine.Amount, error) {
	if l == nil {
		return machine.Amount{}, nil
	}
	for _, n := range []float64{l.CostMicro, l.Tokens, l.ToolCalls} {
		if !(n >= 0 && n <= maxUsage) || n != math.Trunc(n) {
			return machine.Amount{}, fmt.Errorf("lease: want whole numbers from 0 to %d, got %v", int64(maxUsage), n)
		}
	}
	if l.ToolCalls > maxUsageToolCalls {
		return machine.Amount{}, fmt.Errorf("lease: want at most %d tool calls, got %v", int64(maxUsageToolCalls), l.ToolCalls)
	}
	return machine.Amount{Tokens: int64(l.Tokens), CostMicro: int64(l.CostMicro), ToolCalls: int64(l.ToolCalls)}, nil
}
