package server

import (
	"maps"
	"slices"
	"sync"
)

// partitions are those that this sidecar has, by partition. A store that is its own is partition 0.
type partitions struct {
	mu sync.Mutex
	of map[int32]*partition
}

func (t *partitions) put(part int32, one *partition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[int32]*partition{}
	}
	t.of[part] = one
}

func (t *partitions) drop(part int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, part)
}

// all are in no order.
func (t *partitions) all() []*partition {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.of))
}

// own is the one of a store that is this sidecar's alone; nil: it has not been opened.
func (t *partitions) own() *partition {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of[0]
}
