package pack

import "github.com/pawl-dev/pawl/internal/pack/source"

// Limits bounds the contents of one document.
type Limits = source.Limits

// DefaultLimits are the limits of a zero [Limits].
func DefaultLimits() Limits { return source.DefaultLimits() }
