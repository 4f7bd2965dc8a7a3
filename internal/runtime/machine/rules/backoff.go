package rules

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// These constants are the defaults for pauses that the pack does not set.
const (
	defaultMultiplier = 2000
	defaultJitter     = 200_000
)

// Backoff returns the pause after a failed attempt. The pause begins with Initial, is multiplied for
// each further attempt, and is bounded by Max. Then the number jitter changes the pause by up to the
// share Jitter. jitter depends only on the run, the turn or step, and the attempt, so that a replay
// computes the same pause.
func Backoff(p machine.RetryPolicy, jitter uint32, attempt int) time.Duration {
	pause, most := cmp.Or(p.Initial, machine.DefaultInitialPause), cmp.Or(p.Max, machine.DefaultMaxPause)
	by := time.Duration(cmp.Or(p.Multiplier, defaultMultiplier))
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

// Jitter returns the first 4 bytes of SHA-256(run ‖ turn seq or step ‖ attempt), with the numbers as 8 bytes
// big-endian.
func Jitter(run string, of uint64, attempt int) uint32 {
	buf := append(make([]byte, 0, 64), run...)
	buf = binary.BigEndian.AppendUint64(buf, of)
	buf = binary.BigEndian.AppendUint64(buf, uint64(attempt))
	sum := sha256.Sum256(buf)
	return binary.BigEndian.Uint32(sum[:4])
}
