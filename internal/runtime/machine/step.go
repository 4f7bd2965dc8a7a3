package machine

import (
	"strconv"
)

// IdempotencyKey names a step in all its attempts, "RUN/STEP": what a tool changes
// outside is keyed by it, so that an attempt whose answer is not known has no second
// effect. Never the attempt: that one rises exactly when it matters.
func IdempotencyKey(run string, step uint32) string {
	return run + "/" + strconv.FormatUint(uint64(step), 10)
}
