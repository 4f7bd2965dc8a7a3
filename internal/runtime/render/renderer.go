package render

import (
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/history"
)

// Clock returns the current time. The remaining budget is computed from it.
type Clock interface {
	Now() time.Time
}

// Renderer renders turns. It has no state of its own. Safe for concurrent use.
type Renderer struct {
	past  *history.Reader
	clock Clock
}

// New returns a Renderer.
func New(past *history.Reader, clock Clock) *Renderer { return &Renderer{past: past, clock: clock} }
