package history

import (
	"sync"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

const (
	// The variables of runs are cached because each turn needs them, and most of them are small. maxVariables
	// bounds the number of cached runs. Variables of more than maxVariableBytes bytes are not cached.
	maxVariables     = 2048
	maxVariableBytes = 2048
)

// variables caches the variables of runs that had a turn recently. It never becomes out of date, because variables
// never change. Safe for concurrent use.
type variables struct {
	mu     sync.Mutex
	cached *cache.LRU[machine.RunKey, []byte]
}

func newVariables() *variables {
	return &variables{cached: cache.New[machine.RunKey, []byte](maxVariables)}
}

func (v *variables) get(key machine.RunKey) ([]byte, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.cached.Get(key)
}

func (v *variables) forget(key machine.RunKey) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cached.Remove(key)
}

func (v *variables) keep(key machine.RunKey, raw []byte) {
	if len(raw) > maxVariableBytes {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cached.Put(key, raw, 1)
}
