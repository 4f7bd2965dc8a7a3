package machine

import (
	"strconv"
)

// IdempotencyKey returns the key of a step in all its attempts, "RUN/STEP". A tool uses it as the key of its
// external change, so that an attempt with an unknown answer has no second effect. It does not contain the
// attempt, because the attempt changes exactly when the key is needed.
func IdempotencyKey(run string, step uint32) string {
	return run + "/" + strconv.FormatUint(uint64(step), 10)
}
