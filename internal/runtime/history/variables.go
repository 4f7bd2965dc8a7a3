package history

import (
	"sync"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

const (
	// maxVariables bounds the runs whose variables are held, and maxVariableBytes those
	// of one of them: each turn asks for them, and most are small.
	maxVariables     = 2048
	maxVariableBytes = 2048
)

// variables holds what runs that had turns lately were started with, which never
// changes. Safe for concurrent use.
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
