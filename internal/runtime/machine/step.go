package machine

import (
	"strconv"
)

// IdempotencyKey returns the key that a step has in all its attempts, "RUN/STEP". A tool sends it to
// the system that it changes, so that a repeated attempt has no second effect. The key does not contain
// the number of the attempt, because it must be the same in every attempt.
func IdempotencyKey(run string, step uint32) string {
	return run + "/" + strconv.FormatUint(uint64(step), 10)
}
