package render

import (
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/history"
)

// Clock is the time that what is left of a budget is told at.
type Clock interface {
	Now() time.Time
}

// Renderer renders turns. It holds nothing of any run. Safe for concurrent use.
type Renderer struct {
	past  *history.Reader
	clock Clock
}

// New makes a renderer of what a reader finds.
func New(past *history.Reader, clock Clock) *Renderer { return &Renderer{past: past, clock: clock} }
