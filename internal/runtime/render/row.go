package render

import (
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// View is a run at one seq. Read only.
type View struct {
	State *machine.State
	// Artifacts are ordered by name; nil unless requested.
	Artifacts []history.Artifact
}

// Row is one record as a watch returns it.
type Row struct {
	RunID  string
	Record machine.Record
	// PrevSeq is the run's previous record that matches the filter, 0 = none. A reader can check
	// with it that no record is missing.
	PrevSeq uint64
	Cursor  validate.Cursor
	// PrevHash and Hash are the hash chain of the run before and after the record's entry.
	PrevHash [32]byte
	Hash     [32]byte
	// Erased reports whether the values of the run were erased.
	Erased bool
	// Status is the status of the run after the record's commit, if requested; else 0.
	Status machine.Status
	// Snapshot is set if it was requested and the run was not erased.
	Snapshot *View
}
