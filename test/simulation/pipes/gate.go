package pipes

import "sync"

// Gate blocks everything that a process does outside of itself while the process is stopped. The zero
// value is open. Safe for concurrent use.
type Gate struct {
	mu   sync.Mutex
	shut chan struct{}
}

// Shut stops the process.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
}

// Open lets it go on.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

// Pass waits while the process is stopped, or until over is closed.
func (g *Gate) Pass(over <-chan struct{}) {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut == nil {
		return
	}
	select {
	case <-shut:
	case <-over:
	}
}
