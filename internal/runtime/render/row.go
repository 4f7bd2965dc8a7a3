package render

import (
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// View is a run as it is told at one seq. Read only.
type View struct {
	State *machine.State
	// Artifacts in the order of their names; nil unless asked for.
	Artifacts []history.Artifact
}

// Row is one record as a watch tells it.
type Row struct {
	RunID  string
	Record machine.Record
	// PrevSeq is the run's previous record under the filter, 0 = none: the proof
	// that nothing is missing in between.
	PrevSeq uint64
	Cursor  validate.Cursor
	// PrevHash and Hash are the run's chain before and after the record's entry.
	PrevHash [32]byte
	Hash     [32]byte
	// Erased: the values of the run were erased.
	Erased bool
	// Status is that of the run behind the record's commit, where it was asked for; else 0.
	Status machine.Status
	// Snapshot is set where it was asked for, and the run was not erased.
	Snapshot *View
}
