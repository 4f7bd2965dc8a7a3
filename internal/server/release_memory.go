package server

import (
	"context"
	"runtime/debug"
	"time"
)

// settleAfter is the time between the ready line and the release of memory that only the start needed.
// In this time, callers that are already waiting are served first.
const settleAfter = 300 * time.Millisecond

// settle returns memory that only the start needed to the system. This is heap garbage, which the
// collector would keep for later, and resident pages of the program's file, for example of
// initializers. These pages are mapped again when they are needed.
func settle(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(settleAfter):
	}
	debug.FreeOSMemory()
	dropProgram()
}
