package runtime

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Waiting is how many inputs wait for a run.
func (e *Engine) Waiting(ns uint32, run string) int {
	key := RunKey{Namespace: ns, ID: run}
	shard := e.runTable.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if sl := shard.entries[key]; sl != nil {
		return sl.waiting
	}
	return 0
}

// Cached lists how many slots there are and what their states take.
func (e *Engine) Cached() (slots int, bytes int64) {
	for i := range e.runTable.shards {
		shard := &e.runTable.shards[i]
		shard.mu.Lock()
		slots += len(shard.entries)
		bytes += shard.bytes
		shard.mu.Unlock()
	}
	return slots, bytes
}

// CachedState is a run's state in the cache, or nil.
func (e *Engine) CachedState(ns uint32, run string) *machine.State {
	return e.runTable.cachedState(RunKey{Namespace: ns, ID: run})
}
