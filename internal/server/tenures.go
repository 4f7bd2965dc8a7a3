package server

import (
	"maps"
	"slices"
	"sync"
)

// tenures are those that this sidecar has, by partition. A store that is its own is partition 0.
type tenures struct {
	mu sync.Mutex
	of map[int32]*tenure
}

func (t *tenures) put(part int32, one *tenure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[int32]*tenure{}
	}
	t.of[part] = one
}

func (t *tenures) drop(part int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, part)
}

// all are in no order.
func (t *tenures) all() []*tenure {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.of))
}

// own is the one of a store that is this sidecar's alone; nil: it has not been opened.
func (t *tenures) own() *tenure {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of[0]
}
