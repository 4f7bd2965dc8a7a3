package server

import (
	"context"
	"runtime/debug"
	"time"
)

// settleAfter is the time between the ready line and the release of the memory that only the start
// needed. Callers that are already waiting are served first.
const settleAfter = 300 * time.Millisecond

// settle returns memory to the system that only the start needed. This is garbage of the heap, which
// the collector would keep for later, and resident pages of the program's file, for example pages of
// initializers. Such pages stay in the system's page cache and are mapped again when they are needed.
func settle(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(settleAfter):
	}
	debug.FreeOSMemory()
	dropProgram()
}
