package history

import (
	"sync"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

const (
	// The variables of runs are cached because each turn needs them, and most of them are small.
	// maxVariables bounds the number of cached runs. maxVariableBytes bounds the variables of one
	// cached run, in bytes.
	maxVariables     = 2048
	maxVariableBytes = 2048
)

// variables caches the variables of runs that had a turn recently. Variables never change. Safe for concurrent use.
type variables struct {
	mu   sync.Mutex
	held *cache.LRU[machine.RunKey, []byte]
}

func newVariables() *variables {
	return &variables{held: cache.New[machine.RunKey, []byte](maxVariables)}
}

func (v *variables) of(key machine.RunKey) ([]byte, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.held.Get(key)
}

func (v *variables) forget(key machine.RunKey) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held.Remove(key)
}

func (v *variables) keep(key machine.RunKey, raw []byte) {
	if len(raw) > maxVariableBytes {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held.Put(key, raw, 1)
}
