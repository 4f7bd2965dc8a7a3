package rules

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// ReplayError names the first record of a journal that is not what its inputs
// make.
type ReplayError struct {
	// Seq is the first bad record.
	Seq    uint64
	Detail string
}

func (e *ReplayError) Error() string { return fmt.Sprintf("record %d: %s", e.Seq, e.Detail) }

// Replay feeds a run's entries, from the first on, through Step and returns the
// state after the last. Records are compared field by field; the first that
// differs is told as a *[ReplayError]. Nothing is executed and nothing changed.
// State.PrevHash is the last entry's hash; the chain itself is not checked here.
func Replay(g *machine.Graph, entries []machine.Entry) (*machine.State, error) {
	return ReplayFrom(g, nil, entries)
}

// ReplayFrom goes on from a checkpoint: the state before the first entry.
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

// Repeat takes an entry's input once more and proves that it makes the entry's
// records. The error is a *[ReplayError].
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

// compareRecords tells the first difference of what is stored and what was made.
func compareRecords(first uint64, stored, made []machine.Record) error {
	for i := range made {
		seq := first + uint64(i)
		if i >= len(stored) {
			return &ReplayError{Seq: seq, Detail: "missing: the input makes one more"}
		}
		if path := difference(reflect.ValueOf(stored[i]), reflect.ValueOf(made[i]), ""); path != "" {
			return &ReplayError{Seq: seq, Detail: "stored and replayed differ at " + path}
		}
	}
	if len(stored) > len(made) {
		return &ReplayError{Seq: first + uint64(len(made)), Detail: "the input makes no such record"}
	}
	return nil
}

// EqualRecords reports whether two records say the same; an empty list and
// none are equal, since storage does not tell them apart.
func EqualRecords(a, b machine.Record) bool {
	return difference(reflect.ValueOf(a), reflect.ValueOf(b), "") == ""
}

// difference returns the path of the first field in which two values of one
// type differ, or "". Paths are put together on the way back from a difference:
// nearly all that is compared is equal, and most of it is bytes.
func difference(a, b reflect.Value, path string) string {
	if at, differ := differAt(a, b); differ {
		return path + at
	}
	return ""
}

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
