package rules

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Pauses between attempts (sections 5 and 9).

func backoff(p machine.RetryPolicy, jitter uint32, attempt int) time.Duration {
	return Backoff(p, jitter, attempt)
}

func jitter(run string, of uint64, attempt int) uint32 { return Jitter(run, of, attempt) }

// stepPause is the pause after the failed attempt of a step that is the n-th in a row: the
// pack's, if it has any, and at least what whoever failed asks for, up to the pack's
// longest.
func (t *txn) stepPause(p *machine.RetryPolicy, step *machine.ToolStep, n int, asked time.Duration) time.Duration {
	if p == nil {
		return min(asked, machine.DefaultMaxPause)
	}
	wait := backoff(*p, t.rules.jitter(t.s.RunID, uint64(step.Step), step.Attempt), n)
	return max(wait, min(asked, OrDefault(p.Max, machine.DefaultMaxPause)))
}

// isFinal: no attempt follows an error of this code.
func isFinal(p *machine.RetryPolicy, code string) bool {
	return p != nil && slices.Contains(p.NonRetryable, code)
}
