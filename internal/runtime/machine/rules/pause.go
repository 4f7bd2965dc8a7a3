package rules

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Pauses between attempts (sections 5 and 9).

// What pauses are where the pack does not say.
const (
	defaultMultiplier = 2000
	defaultJitter     = 200_000
)

// backoff is the pause after a failed attempt: Initial, multiplied per attempt,
// capped by Max, then moved by the share that Jitter is either way at most, by a number
// that run, turn or step, and attempt decide, so that a replay finds the same pause.
func backoff(p machine.RetryPolicy, jitter uint32, attempt int) time.Duration {
	pause, most := orDefault(p.Initial, machine.DefaultInitialPause), orDefault(p.Max, machine.DefaultMaxPause)
	by := time.Duration(orDefault(p.Multiplier, defaultMultiplier))
	for range attempt - 1 {
		if by == 1000 || pause >= most {
			break
		}
		if pause > most/by*1000 {
			pause = most
			break
		}
		pause = pause/1000*by + pause%1000*by/1000 //nolint:durationcheck // by is in thousandths
	}
	pause = min(pause, most)
	share := int64(defaultJitter)
	if p.Jitter != nil {
		share = *p.Jitter
	}
	const million = 1_000_000
	shift := int64(jitter)%(2*share+1) - share
	nanos := int64(pause)
	return max(1, time.Duration(nanos+nanos/million*shift+nanos%million*shift/million))
}

// jitter is the first 4 bytes of SHA-256(run ‖ turn seq or step ‖ attempt), the numbers
// as 8 bytes big-endian.
func jitter(run string, of uint64, attempt int) uint32 {
	buf := append(make([]byte, 0, 64), run...)
	buf = binary.BigEndian.AppendUint64(buf, of)
	buf = binary.BigEndian.AppendUint64(buf, uint64(attempt))
	sum := sha256.Sum256(buf)
	return binary.BigEndian.Uint32(sum[:4])
}

// stepPause is the pause after the failed attempt of a step that is the n-th in a row: the
// pack's, if it has any, and at least what whoever failed asks for, up to the pack's
// longest.
func (t *txn) stepPause(p *machine.RetryPolicy, step *machine.ToolStep, n int, asked time.Duration) time.Duration {
	if p == nil {
		return min(asked, machine.DefaultMaxPause)
	}
	pause := backoff(*p, t.rules.jitter(t.s.RunID, uint64(step.Step), step.Attempt), n)
	return max(pause, min(asked, orDefault(p.Max, machine.DefaultMaxPause)))
}

// modelCalls is how a graph's calls of models are made, with the defaults filled in.
func modelCalls(g *machine.Graph) machine.Calls {
	var c machine.Calls
	if g.ModelCalls != nil {
		c = *g.ModelCalls
	}
	c.Timeout = orDefault(c.Timeout, machine.DefaultModelTimeout)
	c.Retry.MaxAttempts = orDefault(c.Retry.MaxAttempts, machine.DefaultModelAttempts)
	return c
}

// isFinal: no attempt follows an error of this code.
func isFinal(p *machine.RetryPolicy, code string) bool {
	return p != nil && slices.Contains(p.NonRetryable, code)
}
