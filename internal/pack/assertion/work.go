package assertion

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// toolsCalled compiles how often the turn has to call each of the tools: at least min_calls, 1 if it is not given, and at most max_calls.
func toolsCalled(p *params) func(*Turn) Hit {
	tools := p.words("tools", "tool_names")
	least, most := p.count(0, "min_calls"), p.count(0, "max_calls")
	if least < 0 {
		least = 1
	}
	if most >= 0 && most < least {
		if p.one("min_calls") != "" {
			p.fail("max_calls", "is less than min_calls")
		}
		least = most
	}
	return func(t *Turn) Hit {
		var faults []string
		for _, tool := range tools {
			switch n := int64(t.Calls[tool]); {
			case most >= 0 && n > most:
				faults = append(faults, fmt.Sprintf("the tool %q was called %d times; at most %d", tool, n, most))
			case t.Ended && n < least:
				faults = append(faults, fmt.Sprintf("the tool %q was called %d times; at least %d", tool, n, least))
			}
		}
		return Hit{Reason: strings.Join(faults, "; ")}
	}
}

func toolsNotCalled(p *params) func(*Turn) Hit {
	tools := p.words("tools", "tool_names")
	return func(t *Turn) Hit {
		for _, tool := range tools {
			if t.Calls[tool] > 0 {
				return Hit{Reason: fmt.Sprintf("the tool %q was called, which is not allowed", tool)}
			}
		}
		return Hit{}
	}
}

const microPerUSD = 1_000_000

// costBudget compiles what the run may have cost and consumed when the answer came.
func costBudget(p *params) func(*Turn) Hit {
	usd := p.amount("max_cost_usd")
	total := p.count(0, "max_total_tokens")
	if usd < 0 && total < 0 {
		p.missing("max_cost_usd", "is required, or max_total_tokens")
	}
	return func(t *Turn) Hit {
		switch {
		case usd >= 0 && float64(t.CostMicro) > math.Round(usd*microPerUSD):
			return Hit{Reason: fmt.Sprintf("the run has cost $%.6f; at most $%.6f", float64(t.CostMicro)/microPerUSD, usd)}
		case total >= 0 && t.Tokens > total:
			return Hit{Reason: fmt.Sprintf("the run has consumed %d tokens; at most %d", t.Tokens, total)}
		}
		return Hit{}
	}
}

// latencyBudget compiles how long the model may take for one answer.
func latencyBudget(p *params) func(*Turn) Hit {
	if p.need("max_ms") == "" {
		return nil
	}
	limit := time.Duration(min(p.amount("max_ms"), 1e12) * float64(time.Millisecond))
	return func(t *Turn) Hit {
		if t.Latency > limit {
			return Hit{Reason: fmt.Sprintf("the answer took %d ms; at most %d ms", t.Latency.Milliseconds(), limit.Milliseconds())}
		}
		return Hit{}
	}
}
