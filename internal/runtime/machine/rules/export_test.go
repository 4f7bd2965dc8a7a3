package rules

import "github.com/pawl-dev/pawl/internal/runtime/machine"

// The invariants are checked by a package that imports this one. Its functions are set by
// the external tests of this package, which may import both.
var (
	CheckState  func(*machine.State, *machine.Graph) error
	CheckChange func(before, after *machine.State, records []machine.Record) error
	// CheckSettled checks what a batch says that it settled.
	CheckSettled func(before *machine.State, b *machine.Batch) error
)
