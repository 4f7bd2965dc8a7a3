package render

import (
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// View is a run after the record of one seq. It is read-only.
type View struct {
	State *machine.State
	// Artifacts are ordered by name; nil unless requested.
	Artifacts []history.Artifact
}

// Row is one record in the form in which a watch returns it.
type Row struct {
	RunID  string
	Record machine.Record
	// PrevSeq is the seq of the run's previous record that matches the filter. It is 0 if there is
	// none. With it, a reader can check that no record is missing.
	PrevSeq uint64
	Cursor  validate.Cursor
	// PrevHash and Hash are the values of the run's hash chain before and after the entry of the
	// record.
	PrevHash [32]byte
	Hash     [32]byte
	// Erased reports whether the values of the run were erased.
	Erased bool
	// Status is the status of the run after the record's commit, if the caller requested it. Otherwise
	// it is 0.
	Status machine.Status
	// Snapshot is the run after the record. It is set if the caller requested it and the run was not
	// erased.
	Snapshot *View
}
