package protocol

import (
	"errors"
	"math"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestUsageOfAgents: a reported usage is read back unchanged. A missing usage counts as zero. A value that
// is not a count within the bounds is a fault of the agent.
func TestUsageOfAgents(t *testing.T) {
	t.Parallel()
	want := machine.Usage{InputTokens: 3, OutputTokens: 4, CostMicro: 5, ToolCalls: 6}
	if got, _, _, err := UsageFromProto(UsageToProto(want)); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, none := range []*structpb.Value{nil, structpb.NewStringValue("x"), structpb.NewStructValue(&structpb.Struct{})} {
		if got, _, _, err := UsageFromProto(none); err != nil || got != (machine.Usage{}) {
			t.Errorf("%v: %+v, %v", none, got, err)
		}
	}
	for name, most := range map[string]int64{"input_tokens": maxUsage, "output_tokens": maxUsage, "cost_micro_usd": maxUsage, "tool_calls": maxUsageToolCalls} {
		for _, bad := range []*structpb.Value{
			structpb.NewNumberValue(-1), structpb.NewNumberValue(0.5), structpb.NewNumberValue(float64(most) + 1), structpb.NewNumberValue(math.NaN()),
			structpb.NewNumberValue(math.Inf(1)), structpb.NewStringValue("9"), structpb.NewBoolValue(true), structpb.NewNullValue(),
		} {
			value := UsageToProto(want)
			value.GetStructValue().Fields["usage"].GetStructValue().Fields[name] = bad
			_, _, _, err := UsageFromProto(value)
			if fault, ok := errors.AsType[*machine.AgentFault](err); !ok || fault.Code != "AGENT_PROTOCOL" {
				t.Errorf("%s %v: %v", name, bad, err)
			}
		}
	}
}

// TestSpendIsBounded: totals are those of the records, and never leave the bounds.
func TestSpendIsBounded(t *testing.T) {
	t.Parallel()
	var total machine.Usage
	for _, body := range []machine.Body{
		&machine.StepRequested{}, &machine.StepRequested{About: &machine.About{Role: machine.RoleCompensate}}, &machine.StepResolved{Usage: machine.Usage{InputTokens: 1, ToolCalls: 2}},
		&machine.TurnFailed{Usage: machine.Usage{OutputTokens: 3}}, &machine.TurnCompleted{Usage: machine.Usage{CostMicro: 4}}, &machine.Paused{},
		// A call of a model is not a call of a tool. A result that came too late still counts as consumed.
		&machine.StepRequested{Kind: machine.KindModel}, &machine.StepResolved{Kind: machine.KindModel, Usage: machine.Usage{InputTokens: 10}},
		&machine.ModelUpdated{Usage: machine.Usage{OutputTokens: 20}},
	} {
		AddUsage(&total, body)
	}
	if want := (machine.Usage{InputTokens: 11, OutputTokens: 23, CostMicro: 4, ToolCalls: 3}); total != want {
		t.Errorf("%+v", total)
	}
	huge := machine.Usage{InputTokens: math.MaxInt64, OutputTokens: math.MaxInt64, CostMicro: math.MaxInt64, ToolCalls: math.MaxInt}
	AddUsage(&total, &machine.TurnCompleted{Usage: huge})
	AddUsage(&total, &machine.TurnCompleted{Usage: huge})
	if want := (machine.Usage{InputTokens: maxUsage, OutputTokens: maxUsage, CostMicro: maxUsage, ToolCalls: maxUsageToolCalls}); total != want {
		t.Errorf("%+v", total)
	}
}
