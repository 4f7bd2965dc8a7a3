package router

import (
	"context"
	"sync"
)

// group has the calls that last, to end them together. The zero value is one.
type group struct {
	mu    sync.Mutex
	last  uint64
	calls map[uint64]context.CancelCauseFunc
}

// enter is a context that ends with ctx or when the group does; leave lets go of it.
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

// end cancels all that are in it now.
func (g *group) end(cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, cancel := range g.calls {
		cancel(cause)
	}
}
