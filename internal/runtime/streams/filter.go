package streams

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// Filter selects records. A record must match every field that is set. Whether it matches depends only on the
// journal, and never on the time of reading.
type Filter struct {
	// RunID selects the records of one run.
	RunID string
	// Pack selects a pack by its id, id@version or digest.
	Pack string
	// States selects records after which the run is in one of these states. A Transition belongs to the state
	// that it enters.
	States []string
	// Status selects records after which the run has one of these statuses.
	Status []machine.Status
	// Labels selects runs that have all of these labels.
	Labels []machine.Label
	// Kinds are the selected kinds of records. If it is empty, transitions and the ends of runs are selected.
	Kinds []machine.RecordKind
	// Parent selects the runs that were started by a delegation of the run with this id.
	Parent string
}

// defaultKinds are the kinds of records that a filter without kinds selects.
var defaultKinds = []machine.RecordKind{machine.RecTransition, machine.RecEnded}

// kindSet is a set of record kinds, with one bit for each kind.
type kindSet uint64

func newKindSet(kinds []machine.RecordKind) kindSet {
	if len(kinds) == 0 {
		kinds = defaultKinds
	}
	var set kindSet
	for _, k := range kinds {
		set |= 1 << k
	}
	return set
}

func (s kindSet) has(k machine.RecordKind) bool { return s&(1<<k) != 0 }

// atMostOnce reports whether the set has no other kinds than the end and the origin of a run. A run has at most one
// record of each of the two.
func (s kindSet) atMostOnce() bool { return s&^(1<<machine.RecEnded|1<<machine.RecOrigin) == 0 }

// ofRuns reports whether the filter depends on properties of runs that never change.
func (f *Filter) ofRuns() bool { return f.Pack != "" || len(f.Labels) > 0 || f.Parent != "" }

// ofMoments reports whether the filter depends on the state or status of the run at the record.
func (f *Filter) ofMoments() bool { return len(f.States) > 0 || len(f.Status) > 0 }

// matchesRun reports whether a run has the pack, parent and labels that the filter selects.
func (f *Filter) matchesRun(s *machine.State) bool {
	if f.Pack != "" && f.Pack != s.PackID && f.Pack != s.Digest && f.Pack != s.PackID+"@"+s.PackVersion {
		return false
	}
	if f.Parent != "" && (s.Parent == nil || s.Parent.RunID != f.Parent) {
		return false
	}
	for _, l := range f.Labels {
		if !slices.Contains(s.Labels, l) {
			return false
		}
	}
	return true
}

// matches reports whether a record has a selected kind, and whether the moment after it has a selected state and status.
// It does not check the properties of the run. g may be nil if the filter selects no status.
func (f *Filter) matches(kinds kindSet, body machine.Body, m rules.Moment, g *machine.Graph) bool {
	return kinds.has(machine.RecordKindOf(body)) &&
		(len(f.States) == 0 || slices.Contains(f.States, m.State)) &&
		(len(f.Status) == 0 || slices.Contains(f.Status, m.Status(g)))
}
