package testkit

import (
	"fmt"
	"sync/atomic"
	"time"
)

// IDs counts up. Safe for concurrent use.
type IDs struct {
	runs, tokens atomic.Uint64
}

// RunID has the form of a ULID and sorts in the order of the calls.
func (i *IDs) RunID(time.Time) string { return fmt.Sprintf("01J%023d", i.runs.Add(1)) }

// Token is "token-1", "token-2", and so on.
func (i *IDs) Token() string { return fmt.Sprintf("token-%d", i.tokens.Add(1)) }
