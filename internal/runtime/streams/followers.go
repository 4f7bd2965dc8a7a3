package streams

import (
	"context"
	"fmt"
)

// Followers counts the open streams over all runs, for metrics.
type Followers struct {
	// Streams is the number of open streams.
	Streams int
	// Lag is the number of commits that the slowest stream has not read yet.
	Lag uint64
}

// Followers returns the counts over all namespaces.
func (r *Service) Followers(ctx context.Context) (Followers, error) {
	var out Followers
	for _, ns := range r.cfg.Engine.NamespaceNumbers() {
		tail, err := r.cfg.Store.Tail(ctx, ns)
		if err != nil {
			return Followers{}, fmt.Errorf("streams: tail of the journal: %w", err)
		}
		streams, slowest := r.hub.followers(ns)
		out.Streams += streams
		if streams > 0 && slowest < tail {
			out.Lag = max(out.Lag, tail-slowest)
		}
	}
	return out, nil
}

// followers returns the number of streams of a namespace, and the position of the slowest stream.
func (h *hub) followers(ns uint32) (streams int, slowest uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sp := h.feeds[ns]
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
