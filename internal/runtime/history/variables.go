package history

import (
	"sync"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

const (
	// maxVariables bounds the runs whose variables are held, and maxVariableBytes those
	// of one of them: each turn asks for them, and most are small.
	maxVariables     = 2048
	maxVariableBytes = 2048
)

// variables holds what runs that had turns lately were started with, which never
// changes. When it is full it begins anew. Safe for concurrent use.
type variables struct {
	mu   sync.RWMutex
	held map[machine.RunKey][]byte
}

func (v *variables) of(key machine.RunKey) ([]byte, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	raw, ok := v.held[key]
	return raw, ok
}

func (v *variables) keep(key machine.RunKey, raw []byte) {
	if len(raw) > maxVariableBytes {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.held == nil || len(v.held) >= maxVariables {
		v.held = make(map[machine.RunKey][]byte)
	}
	v.held[key] = raw
}
