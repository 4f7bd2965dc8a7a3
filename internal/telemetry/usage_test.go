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

// settle counts usage of one commit.
func settle(m *telemetry.Metrics, settled ...machine.Settled) {
	m.Observe(&machine.Batch{Input: machine.Input{Command: machine.CompleteTurn{}}, Prev: 1, State: &machine.State{}, Settled: settled}, nil)
}

// TestUsageOfEachCommit: what an input settles is counted once, by its model. The usage of an agent is counted where the agent's run is.
func TestUsageOfEachCommit(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	used := machine.UsageSum{InputTokens: 10, OutputTokens: 1, CostMicro: 500, Reports: 1}
	settle(
		m,
		machine.Settled{Model: "turn", UsageSum: used}, machine.Settled{Model: "model", UsageSum: used},
		machine.Settled{Tool: "search", UsageSum: used}, machine.Settled{Tool: "agent", Agent: true, Model: "agent", UsageSum: used},
	)
	text := page(t, m)
	for _, model := range []string{"turn", "model", ""} {
		for _, line := range []string{
			fmt.Sprintf(`pawl_usage_tokens_total{model=%q,type="input"} 10`, model), fmt.Sprintf(`pawl_usage_tokens_total{model=%q,type="output"} 1`, model),
			fmt.Sprintf(`pawl_usage_cost_usd_total{model=%q} 0.0005`, model),
		} {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("no line %s in %s", line, text)
			}
		}
	}
	if n := strings.Count(text, "\npawl_usage_cost_usd_total{"); n != 3 {
		t.Errorf("%d models in %s", n, text)
	}
}

// TestModelsAreBounded: models beyond the bound are counted together.
func TestModelsAreBounded(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	for range 2 {
		for i := range 150 {
			settle(m, machine.Settled{Model: fmt.Sprint("model-", i), UsageSum: machine.UsageSum{CostMicro: 1_000_000}})
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
