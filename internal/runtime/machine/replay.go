package machine

import (
	"fmt"
	"reflect"
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
func Replay(g *Graph, entries []Entry) (*State, error) {
	return ReplayFrom(g, nil, entries)
}

// ReplayFrom goes on from a checkpoint: the state before the first entry.
func ReplayFrom(g *Graph, s *State, entries []Entry) (*State, error) {
	for i := range entries {
		next, err := replayOne(g, s, &entries[i])
		if err != nil {
			return nil, err
		}
		s = next
	}
	return s, nil
}

func replayOne(g *Graph, s *State, e *Entry) (*State, error) {
	var last uint64
	if s != nil {
		last = s.Seq
	}
	if e.First != last+1 {
		return nil, &ReplayError{Seq: last + 1, Detail: fmt.Sprintf("the next entry begins with record %d", e.First)}
	}
	r, err := Step(g, s, e.Input)
	if err != nil {
		return nil, &ReplayError{Seq: e.First, Detail: "its input is refused: " + err.Error()}
	}
	if r.Batch == nil {
		return nil, &ReplayError{Seq: e.First, Detail: "its input changes nothing"}
	}
	if err := compareRecords(e.First, e.Records, r.Batch.Records); err != nil {
		return nil, err
	}
	next := *r.State
	next.PrevHash = e.Hash
	return &next, nil
}

// compareRecords tells the first difference of what is stored and what was made.
func compareRecords(first uint64, stored, made []Record) error {
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
func EqualRecords(a, b Record) bool {
	return difference(reflect.ValueOf(a), reflect.ValueOf(b), "") == ""
}

// difference returns the path of the first field in which two values of one
// type differ, or "".
func difference(a, b reflect.Value, path string) string {
	if a.IsValid() != b.IsValid() || a.IsValid() && a.Type() != b.Type() {
		return path + " (kind)"
	}
	if !a.IsValid() {
		return ""
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return pathUnless(a.IsNil() == b.IsNil(), path)
		}
		return difference(a.Elem(), b.Elem(), path)
	case reflect.Struct:
		for i := range a.NumField() {
			if p := difference(a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name); p != "" {
				return p
			}
		}
		return ""
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return path + " (length)"
		}
		for i := range a.Len() {
			if p := difference(a.Index(i), b.Index(i), fmt.Sprintf("%s[%d]", path, i)); p != "" {
				return p
			}
		}
		return ""
	}
	return pathUnless(a.Equal(b), path)
}

func pathUnless(equal bool, path string) string {
	if equal {
		return ""
	}
	return path
}
