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
	case *machine.StepCancelled:
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
func UsageFromProto(value *structpb.Value) (u machine.Usage, metered bool, err error) {
	usage := value.GetStructValue().GetFields()["usage"].GetStructValue()
	fields := usage.GetFields()
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
	return u, usage != nil, err
}

// LeaseToProto is what a delegation lets the agent's run consume: {"cost_micro_usd",
// "tokens"}, 0 = no bound.
func LeaseToProto(lease machine.Amount) *structpb.Value {
	return structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
		"cost_micro_usd": structpb.NewNumberValue(float64(min(lease.CostMicro, maxSpent))),
		"tokens":         structpb.NewNumberValue(float64(min(lease.Tokens, maxSpent))),
	}})
}

// Lease is the JSON of it.
type Lease struct {
	CostMicro float64 `json:"cost_micro_usd"`
	Tokens    float64 `json:"tokens"`
}

// Amount reads it. What is no count within the bounds is the sender's fault: a run must not
// begin that is held to nothing, or to what nobody meant.
func (l *Lease) Amount() (machine.Amount, error) {
	if l == nil {
		return machine.Amount{}, nil
	}
	for _, n := range []float64{l.CostMicro, l.Tokens} {
		if !(n >= 0 && n <= maxSpent) || n != math.Trunc(n) {
			return machine.Amount{}, fmt.Errorf("lease: want whole numbers from 0 to %d, got %v", int64(maxSpent), n)
		}
	}
	return machine.Amount{Tokens: int64(l.Tokens), CostMicro: int64(l.CostMicro)}, nil
}
