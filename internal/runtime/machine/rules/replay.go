package rules

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// ReplayError reports the first record of a journal that differs from the record that its input makes.
type ReplayError struct {
	// Seq is the first bad record.
	Seq    uint64
	Detail string
}

func (e *ReplayError) Error() string { return fmt.Sprintf("record %d: %s", e.Seq, e.Detail) }

// Replay applies all entries of a run from the first one and returns the last state. It compares the
// records field by field and returns the first difference as a *[ReplayError]. Replay executes no
// effects and changes no data. State.PrevHash is the hash of the last entry. Replay does not check the
// hash chain.
func Replay(g *machine.Graph, entries []machine.Entry) (*machine.State, error) {
	return ReplayFrom(g, nil, entries)
}

// ReplayFrom does the same as Replay, but begins at a checkpoint. s is the state before the first
// entry.
func ReplayFrom(g *machine.Graph, s *machine.State, entries []machine.Entry) (*machine.State, error) {
	for i := range entries {
		next, err := replayOne(g, s, &entries[i])
		if err != nil {
			return nil, err
		}
		s = next
	}
	return s, nil
}

func replayOne(g *machine.Graph, s *machine.State, e *machine.Entry) (*machine.State, error) {
	r, err := Repeat(g, s, e)
	if err != nil {
		return nil, err
	}
	next := *r.State
	next.PrevHash = e.Hash
	return &next, nil
}

// Repeat applies an entry's input again and checks that it makes the entry's records. The error is a
// *[ReplayError].
func Repeat(g *machine.Graph, s *machine.State, e *machine.Entry) (machine.Result, error) {
	var last uint64
	if s != nil {
		last = s.Seq
	}
	if e.First != last+1 {
		return machine.Result{}, &ReplayError{Seq: last + 1, Detail: fmt.Sprintf("the next entry begins with record %d", e.First)}
	}
	r, err := Step(g, s, e.Input)
	if err != nil {
		return r, &ReplayError{Seq: e.First, Detail: "its input is refused: " + err.Error()}
	}
	if r.Batch == nil {
		return r, &ReplayError{Seq: e.First, Detail: "its input changes nothing"}
	}
	return r, compareRecords(e.First, e.Records, r.Batch.Records)
}

// compareRecords returns the first difference between the stored records and the records that the input makes.
func compareRecords(first uint64, stored, made []machine.Record) error {
	for i := range made {
		seq := first + uint64(i)
		if i >= len(stored) {
			return &ReplayError{Seq: seq, Detail: "missing: the input makes one more"}
		}
		if path := Difference(stored[i], made[i]); path != "" {
			return &ReplayError{Seq: seq, Detail: "stored and replayed differ at " + path}
		}
	}
	if len(stored) > len(made) {
		return &ReplayError{Seq: first + uint64(len(made)), Detail: "the input makes no such record"}
	}
	return nil
}

// EqualRecords reports whether two records are equal. An empty list is equal to nil, because stored bytes do not distinguish them.
func EqualRecords(a, b machine.Record) bool { return Difference(a, b) == "" }
