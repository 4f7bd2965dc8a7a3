package rules

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// This file computes pauses between attempts (semantics §5, §9).

func backoff(p machine.RetryPolicy, jitter uint32, attempt int) time.Duration {
	return Backoff(p, jitter, attempt)
}

func jitter(run string, of uint64, attempt int) uint32 { return Jitter(run, of, attempt) }

// stepPause returns the pause after the n-th consecutive failed attempt of a step. It is the pause of
// the pack. If the failure requests a longer pause, it is that pause, but not more than the longest
// pause of the pack.
func (t *txn) stepPause(p *machine.RetryPolicy, step *machine.ToolStep, n int, asked time.Duration) time.Duration {
	if p == nil {
		return min(asked, machine.DefaultMaxPause)
	}
	wait := backoff(*p, t.rules.jitter(t.s.RunID, uint64(step.Step), step.Attempt), n)
	return max(wait, min(asked, OrDefault(p.Max, machine.DefaultMaxPause)))
}

// isFinal reports whether no attempt follows after an error with this code.
func isFinal(p *machine.RetryPolicy, code string) bool {
	return p != nil && slices.Contains(p.NonRetryable, code)
}
