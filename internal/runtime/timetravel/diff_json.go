package timetravel

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// jsonDiff compares two JSON documents location by location. No library is used, because libraries
// produce patches: there, a pointer depends on the operations before it. Here every pointer refers to
// the unchanged documents.
type jsonDiff struct {
	changes   []ValueChange
	truncated bool
}

// diffJSON returns the differences between two JSON documents, ordered by their keys. Numbers are
// compared as text.
func diffJSON(a, b []byte) ([]ValueChange, bool, error) {
	x, err := decodeExact(a)
	if err != nil {
		return nil, false, err
	}
	y, err := decodeExact(b)
	if err != nil {
		return nil, false, err
	}
	d := &jsonDiff{}
	err = d.value("", x, y)
	return d.changes, d.truncated, err
}

// decodeExact decodes JSON and keeps numbers as they are written.
func decodeExact(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var value any
	return value, dec.Decode(&value)
}

// value compares two values at the same path.
func (d *jsonDiff) value(path string, a, b any) error {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			return d.object(path, x, y)
		}
	case []any:
		if y, ok := b.([]any); ok {
			return d.array(path, x, y)
		}
	default:
		switch b.(type) {
		case map[string]any, []any:
		default:
			if a == b {
				return nil
			}
		}
	}
	return d.add(path, Changed, a, b)
}

// object compares two objects member by member, in the order of the names.
func (d *jsonDiff) object(path string, a, b map[string]any) error {
	keys := slices.Sorted(maps.Keys(a))
	for key := range b {
		if _, both := a[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		at := path + "/" + pointer.Replace(key)
		x, inA := a[key]
		y, inB := b[key]
		var err error
		switch {
		case !inA:
			err = d.add(at, Added, nil, y)
		case !inB:
			err = d.add(at, Removed, x, nil)
		default:
			err = d.value(at, x, y)
		}
		if err != nil || d.truncated {
			return err
		}
	}
	return nil
}

// pointer escapes a key for a JSON pointer (RFC 6901).
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// array compares two arrays index by index.
func (d *jsonDiff) array(path string, a, b []any) error {
	for i := range max(len(a), len(b)) {
		at := path + "/" + strconv.Itoa(i)
		var err error
		switch {
		case i >= len(a):
			err = d.add(at, Added, nil, b[i])
		case i >= len(b):
			err = d.add(at, Removed, a[i], nil)
		default:
			err = d.value(at, a[i], b[i])
		}
		if err != nil || d.truncated {
			return err
		}
	}
	return nil
}

// add adds one difference. If there are already maxChanges, it only notes that the result is
// truncated.
func (d *jsonDiff) add(path string, kind ChangeKind, a, b any) (err error) {
	if len(d.changes) == maxChanges {
		d.truncated = true
		return nil
	}
	change := ValueChange{Path: path, Kind: kind}
	if kind != Added {
		if change.Base, err = json.Marshal(a); err != nil {
			return err
		}
	}
	if kind != Removed {
		if change.Other, err = json.Marshal(b); err != nil {
			return err
		}
	}
	d.changes = append(d.changes, change)
	return nil
}
