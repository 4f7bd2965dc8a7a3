package router

import (
	"context"
	"sync"
)

// group holds the contexts of long calls, so that all of them can be cancelled together. The zero
// value is an empty group.
type group struct {
	mu    sync.Mutex
	last  uint64
	calls map[uint64]context.CancelCauseFunc
}

// enter adds a call to the group. It returns a context that ends with ctx or when the group is
// ended, and a function that removes the call.
func (g *group) enter(ctx context.Context) (in context.Context, leave func()) {
	in, cancel := context.WithCancelCause(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calls == nil {
		g.calls = map[uint64]context.CancelCauseFunc{}
	}
	g.last++
	id := g.last
	g.calls[id] = cancel
	return in, func() {
		g.mu.Lock()
		delete(g.calls, id)
		g.mu.Unlock()
		cancel(nil)
	}
}

// end cancels all calls that are currently in the group. cause is the cause of their contexts.
func (g *group) end(cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, cancel := range g.calls {
		cancel(cause)
	}
}
