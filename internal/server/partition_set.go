package server

import (
	"maps"
	"slices"
	"sync"
)

// partitions holds the open partitions by number. A store that is not shared has only partition 0.
type partitions struct {
	mu       sync.Mutex
	byNumber map[int32]*partition
}

func (t *partitions) put(part int32, one *partition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byNumber == nil {
		t.byNumber = map[int32]*partition{}
	}
	t.byNumber[part] = one
}

func (t *partitions) drop(part int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byNumber, part)
}

// all returns the open partitions in an unspecified order.
func (t *partitions) all() []*partition {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.byNumber))
}

// single returns the only partition of a store that is not shared with other nodes. It returns nil if the
// partition is not open.
func (t *partitions) single() *partition {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byNumber[0]
}
