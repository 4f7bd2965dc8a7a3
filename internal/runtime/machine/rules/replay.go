package rules

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// ReplayError reports the first record of a journal that differs from the record that a replay makes.
type ReplayError struct {
	// Seq is the number of the first record that differs.
	Seq    uint64
	Detail string
}

func (e *ReplayError) Error() string { return fmt.Sprintf("record %d: %s", e.Seq, e.Detail) }

// Replay applies all inputs of a run again, from the first entry, and returns the last state. It compares the stored
// records with the new ones and returns the first difference as a *[ReplayError]. Replay has no side effects.
// State.PrevHash is the hash of the last entry. Replay does not check the hash chain.
func Replay(g *machine.Graph, entries []machine.Entry) (*machine.State, error) {
	return ReplayFrom(g, nil, entries)
}

// ReplayFrom replays entries from a checkpoint instead of the beginning of the run. s is the state before the first
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

// Repeat applies the input of one entry again and checks that it makes the entry's records. The error is a
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

// compareRecords compares the stored records of an entry with the records that its input makes now, and returns the
// first difference.
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

// EqualRecords reports whether two records are equal. An empty list is equal to nil, because the stored bytes of both
// are the same.
func EqualRecords(a, b machine.Record) bool { return Difference(a, b) == "" }

// Difference returns the path of the first field in which two records differ, or "" if the records are
// equal. It builds the path only after it has found a difference, because nearly all compared values
// are equal.
func Difference(a, b machine.Record) string {
	at, _ := differAt(reflect.ValueOf(a), reflect.ValueOf(b))
	return at
}

// differAt compares two values and returns the path of the first difference, for example ".Turn.Seq".
func differAt(a, b reflect.Value) (at string, differ bool) {
	if a.IsValid() != b.IsValid() || a.IsValid() && a.Type() != b.Type() {
		return " (kind)", true
	}
	if !a.IsValid() {
		return "", false
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return "", a.IsNil() != b.IsNil()
		}
		return differAt(a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if at, differ := differAt(a.Field(i), b.Field(i)); differ {
				return "." + a.Type().Field(i).Name + at, true
			}
		}
		return "", false
	case reflect.Slice, reflect.Array:
		return differInList(a, b)
	}
	return "", !a.Equal(b)
}

func differInList(a, b reflect.Value) (at string, differ bool) {
	if a.Len() != b.Len() {
		return " (length)", true
	}
	if a.Kind() == reflect.Slice && a.Type().Elem().Kind() == reflect.Uint8 && bytes.Equal(a.Bytes(), b.Bytes()) {
		return "", false
	}
	for i := range a.Len() {
		if at, differ := differAt(a.Index(i), b.Index(i)); differ {
			return fmt.Sprintf("[%d]%s", i, at), true
		}
	}
	return "", false
}

// DiffVisits returns the states that two runs have visited a different number of times, sorted by name.
func DiffVisits(a, b *machine.State) []machine.CountChange { return Visits(a, b) }

// DiffEdges returns the edges that two runs have followed a different number of times. An edge is an event of a state,
// and is named "state.Event".
func DiffEdges(a, b *machine.State) []machine.CountChange { return Edges(a, b) }

// DiffBudgets returns the counters of budgets that differ between two states, in a fixed order.
func DiffBudgets(a, b *machine.State) []machine.CountChange {
	return Budgets(a, b, ToolSteps)
}
