package server

import (
	"maps"
	"slices"
	"sync"
)

// partitions holds the open partitions by number. A store that is not shared has only partition 0.
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

// all returns the open partitions in no order.
func (t *partitions) all() []*partition {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.of))
}

// own returns the only partition of a store that is not shared. It returns nil if the partition is not
// open.
func (t *partitions) own() *partition {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of[0]
}
