package runtime

import (
	"context"
	"fmt"
)

// Followers says how the streams over all runs stand, for metrics.
type Followers struct {
	// Streams that are open.
	Streams int
	// Lag is how many commits the slowest one has not read yet.
	Lag uint64
}

// Followers looks at the streams of every namespace.
func (e *Engine) Followers(ctx context.Context) (Followers, error) {
	var out Followers
	for _, ns := range e.cfg.Namespaces {
		tail, err := e.store.Tail(ctx, ns)
		if err != nil {
			return Followers{}, fmt.Errorf("runtime: tail of the journal: %w", err)
		}
		streams, slowest := e.hub.followers(ns)
		out.Streams += streams
		if streams > 0 && slowest < tail {
			out.Lag = max(out.Lag, tail-slowest)
		}
	}
	return out, nil
}

// followers counts a namespace's and finds the position of the slowest.
func (h *hub) followers(ns uint32) (streams int, slowest uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sp := h.spaces[ns]
	if sp == nil {
		return 0, 0
	}
	first := true
	for sub := range sp.subs {
		if at := sub.at.Load(); first || at < slowest {
			slowest, first = at, false
		}
	}
	return len(sp.subs), slowest
}
