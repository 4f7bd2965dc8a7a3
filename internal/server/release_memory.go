package server

import (
	"context"
	"runtime/debug"
	"time"
)

// settleAfter is how long after the ready line the memory of the start is released: waiting
// callers are served first.
const settleAfter = 300 * time.Millisecond

// settle gives back to the system what only the start needed: garbage of the heap,
// which the collector would keep for later, and the pages of the program's file that
// hold initializers and what stands around them. The file's pages stay in the page
// cache and come back by themselves when they are needed.
func settle(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(settleAfter):
	}
	debug.FreeOSMemory()
	dropProgram()
}
