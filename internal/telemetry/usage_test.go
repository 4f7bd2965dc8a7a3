package telemetry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/telemetry"
)

// observe counts records of one commit.
func observe(m *telemetry.Metrics, bodies ...machine.Body) {
	b := &machine.Batch{Input: machine.Input{Command: machine.CompleteTurn{}}, Prev: 1, State: &machine.State{}}
	for _, body := range bodies {
		b.Records = append(b.Records, machine.Record{Body: body})
	}
	m.Observe(b, nil)
}

// TestUsageOfEachRecord: each record that adds tokens or cost to a run is counted once, by its model. The usage of an agent is counted where
// the agent's run is.
func TestUsageOfEachRecord(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	used := func(model string) machine.Usage {
		return machine.Usage{InputTokens: 10, OutputTokens: 1, CostMicro: 500, Model: model}
	}
	observe(
		m,
		&machine.TurnCompleted{Usage: used("turn")}, &machine.TurnFailed{Usage: used("failed")},
		&machine.StepResolved{Kind: machine.KindModel, Tool: "requested", Usage: used("")}, &machine.StepResolved{Kind: machine.KindModel, Tool: "requested", Usage: used("model")},
		&machine.StepResolved{Kind: machine.KindTool, Tool: "search", Usage: used("")}, &machine.StepCancelled{Kind: machine.KindTool, Usage: used("cancelled")},
		&machine.ModelUpdated{Usage: used("late")},
		&machine.StepResolved{Kind: machine.KindDelegation, Usage: used("agent")}, &machine.StepCancelled{Kind: machine.KindDelegation, Usage: used("agent")},
		&machine.ModelUpdated{},
	)
	text := page(t, m)
	for _, model := range []string{"turn", "failed", "requested", "model", "", "cancelled", "late"} {
		for _, line := range []string{
			fmt.Sprintf(`pawl_usage_tokens_total{model=%q,type="input"} 10`, model), fmt.Sprintf(`pawl_usage_tokens_total{model=%q,type="output"} 1`, model),
			fmt.Sprintf(`pawl_usage_cost_usd_total{model=%q} 0.0005`, model),
		} {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("no line %s in %s", line, text)
			}
		}
	}
	if n := strings.Count(text, "\npawl_usage_cost_usd_total{"); n != 7 {
		t.Errorf("%d models in %s", n, text)
	}
}

// TestModelsAreBounded: models beyond the bound are counted together.
func TestModelsAreBounded(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	for range 2 {
		for i := range 150 {
			observe(m, &machine.TurnCompleted{Usage: machine.Usage{CostMicro: 1_000_000, Model: fmt.Sprint("model-", i)}})
		}
	}
	text := page(t, m)
	if n := strings.Count(text, "\npawl_usage_cost_usd_total{"); n != 101 || !strings.Contains(text, `pawl_usage_cost_usd_total{model="other"} 100`+"\n") {
		t.Errorf("%d series in %s", n, text)
	}
}

// TestStoppedTurns: a turn that a person stopped has an outcome of its own. A stop without an open turn ends no turn.
func TestStoppedTurns(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	observe(m, &machine.Stopped{TurnSeq: 3, Attempt: 2}, &machine.Stopped{})
	if text := page(t, m); !strings.Contains(text, `pawl_turns_total{attempt="2",outcome="stopped"} 1`+"\n") || strings.Count(text, "\npawl_turns_total{") != 1 {
		t.Errorf("turns in %s", text)
	}
}
