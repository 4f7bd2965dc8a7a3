package assertion

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// toolsCalled compiles the check that the turn called each of the tools: at least min_calls times (default 1, or max_calls if that is
// less), and at most max_calls times.
func toolsCalled(p *params) func(*Turn) Violation {
	tools := p.wordList("tools", "tool_names")
	least, maxCalls := p.intAtLeast(0, "min_calls"), p.intAtLeast(0, "max_calls")
	if least < 0 {
		least = 1
	}
	if maxCalls >= 0 && maxCalls < least {
		if p.oneOf("min_calls") != "" {
			p.fail("max_calls", "is less than min_calls")
		}
		least = maxCalls
	}
	return func(t *Turn) Violation {
		var faults []string
		missing, over := 0, false
		for _, tool := range tools {
			switch n := int64(t.Calls[tool]); {
			case maxCalls >= 0 && n > maxCalls:
				over = true
				faults = append(faults, fmt.Sprintf("the tool %q was called %d times; at most %d", tool, n, maxCalls))
			case t.Ended && n < least:
				missing++
				faults = append(faults, fmt.Sprintf("the tool %q was called %d times; at least %d", tool, n, least))
			}
		}
		hit := Violation{Reason: strings.Join(faults, "; ")}
		if missing > 0 && !over {
			hit.Score = 1 - float64(missing)/float64(len(tools))
		}
		return hit
	}
}

func toolsNotCalled(p *params) func(*Turn) Violation {
	tools := p.wordList("tools", "tool_names")
	return func(t *Turn) Violation {
		for _, tool := range tools {
			if t.Calls[tool] > 0 {
				return Violation{Reason: fmt.Sprintf("the tool %q was called, which is not allowed", tool)}
			}
		}
		return Violation{}
	}
}

const microPerUSD = 1_000_000

// costBudget compiles the check that the run has used at most a given cost and number of tokens when the answer
// arrives.
func costBudget(p *params) func(*Turn) Violation {
	usd := p.amount("max_cost_usd")
	total := p.intAtLeast(0, "max_total_tokens")
	if usd < 0 && total < 0 {
		p.setMissing("max_cost_usd", "is required, or max_total_tokens")
	}
	return func(t *Turn) Violation {
		switch {
		case usd >= 0 && float64(t.CostMicro) > math.Round(usd*microPerUSD):
			return Violation{Reason: fmt.Sprintf("the run has cost $%.6f; at most $%.6f", float64(t.CostMicro)/microPerUSD, usd)}
		case total >= 0 && t.Tokens > total:
			return Violation{Reason: fmt.Sprintf("the run has consumed %d tokens; at most %d", t.Tokens, total)}
		}
		return Violation{}
	}
}

// latencyBudget compiles the check that one answer of the model, or a whole turn, visit or run, took at most a given
// time.
func latencyBudget(p *params) func(*Turn) Violation {
	if p.required("max_ms") == "" {
		return nil
	}
	limit := time.Duration(min(p.amount("max_ms"), 1e12) * float64(time.Millisecond))
	return func(t *Turn) Violation {
		if t.Latency > limit {
			return Violation{
				Reason: fmt.Sprintf("it took %d ms; at most %d ms", t.Latency.Milliseconds(), limit.Milliseconds()),
				Score:  float64(limit) / float64(t.Latency),
			}
		}
		return Violation{}
	}
}
