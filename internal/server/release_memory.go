package server

import (
	"context"
	"runtime/debug"
	"time"
)

// settleAfter is how long after the ready line the memory of the start is released. Waiting callers are served first.
const settleAfter = 300 * time.Millisecond

// settle returns memory to the system that only the start needed: garbage of the heap, which the collector would keep
// for later, and the resident pages of the program's file, for example those of initializers. The pages stay in the
// system's page cache and are mapped again when they are needed.
func settle(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(settleAfter):
	}
	debug.FreeOSMemory()
	dropProgram()
}
