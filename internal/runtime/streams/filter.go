package streams

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Filter selects records. Every field that is set must match; whether a
// record matches depends on the journal alone, never on when it is read.
type Filter struct {
	// RunID watches one run.
	RunID string
	// Pack is an id, id@version or digest.
	Pack string
	// States: the run is in one of them at the record (a Transition: after it).
	States []string
	// Status: the run has one of them after the record.
	Status []machine.Status
	// Labels must all be on the run.
	Labels []machine.Label
	// Kinds of records; empty = transitions and the end.
	Kinds []machine.RecordKind
	// Parent is the run that delegated.
	Parent string
}

// defaultKinds of a watch.
var defaultKinds = []machine.RecordKind{machine.RecTransition, machine.RecEnded}

// kindSet has one bit per record kind.
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

// once: no run has two records of these kinds.
func (s kindSet) once() bool { return s&^(1<<machine.RecEnded|1<<machine.RecOrigin) == 0 }

// ofRuns: the filter asks for properties of runs, which never change.
func (f *Filter) ofRuns() bool { return f.Pack != "" || len(f.Labels) > 0 || f.Parent != "" }

// ofMoments: the filter asks for where the run stood at the record.
func (f *Filter) ofMoments() bool { return len(f.States) > 0 || len(f.Status) > 0 }

// matchesRun says whether a run has the properties asked for.
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

// moment is where a run stands after a record.
type moment struct {
	state  string
	status machine.Status
}

// after follows one record. g may be nil if nobody asks for the status.
func (m moment) after(body machine.Body, g *machine.Graph) moment {
	switch b := body.(type) {
	case *machine.Transition:
		m.state, m.status = b.To, machine.Running
	case *machine.Origin:
		m.state, m.status = b.State.Current, machine.Waiting
		if b.State.Turn != nil {
			m.status = machine.Running
		}
	case *machine.TurnOpened, *machine.TurnReady:
		m.status = machine.Running
	case *machine.TurnCompleted, *machine.TurnAbandoned, *machine.TurnSuspended:
		m.status = machine.Waiting
	case *machine.TurnFailed:
		if b.NotBefore != 0 {
			m.status = machine.Waiting
		}
	case *machine.Ended:
		m.status = b.Status
		return m
	}
	if g != nil && m.status == machine.Running && g.States[m.state] != nil &&
		g.States[m.state].Orchestration == machine.External {
		m.status = machine.Waiting
	}
	return m
}

// matches says whether a record passes, the run's own properties aside.
func (f *Filter) matches(kinds kindSet, body machine.Body, m moment) bool {
	return kinds.has(machine.RecordKindOf(body)) &&
		(len(f.States) == 0 || slices.Contains(f.States, m.state)) &&
		(len(f.Status) == 0 || slices.Contains(f.Status, m.status))
}
