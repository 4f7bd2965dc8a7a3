package template

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Pair is one key that a transition sets.
type Pair struct{ Key, Value []byte }

// Template contains what one transition of the engine writes, so that the yardsticks write the
// same: the same number of keys, in the same form and order, with values of the same bytes. Only
// the parts that make keys differ are filled in for each transition.
type Template struct {
	pairs []Pair
	holes []hole
	// records are what one transition appends to its run.
	records uint64
}

// hole is a place in a key that differs between transitions.
type hole struct {
	pair, at int
	kind     holeKind
	// offset is added to the first record's number (holeSeq).
	offset uint64
}

type holeKind uint8

const (
	holeRun holeKind = iota // the run's id
	holeID                  // the idempotency id
	holeSeq                 // a record's number, 8 bytes big-endian
)

// Identity is what makes one transition's keys its own.
type Identity struct {
	// Run and ID have the lengths of the captured ones.
	Run, ID string
	// First is the number of the transition's first record.
	First uint64
}

// New finds, in the captured keys, where the identity of the captured
// transition of so many records stands.
func New(pairs []Pair, of Identity, records uint64) (*Template, error) {
	if len(pairs) == 0 {
		return nil, errors.New("the captured transition writes nothing")
	}
	t := &Template{pairs: pairs, records: records}
	for i := range pairs {
		t.findHoles(i, of)
	}
	return t, t.check(of)
}

// findHoles finds the holes of one key.
func (t *Template) findHoles(i int, of Identity) {
	key := t.pairs[i].Key
	if t.mark(hole{pair: i, at: bytes.Index(key, []byte(of.Run)), kind: holeRun}) {
		t.mark(hole{pair: i, at: bytes.Index(key, []byte(of.ID)), kind: holeID})
		for offset := range t.records {
			t.mark(hole{pair: i, at: tailIndex(key, of.First+offset), kind: holeSeq, offset: offset})
		}
	}
}

// check proves that the next transition of the same run would write other keys.
func (t *Template) check(of Identity) error {
	next := of
	next.First += t.records
	next.ID = strings.Repeat("x", len(of.ID))
	for i, p := range t.Fill(next) {
		if bytes.Equal(p.Key, t.pairs[i].Key) {
			return fmt.Errorf("captured key %q is the same in every transition", p.Key)
		}
	}
	return nil
}

// mark keeps a hole that was found.
func (t *Template) mark(h hole) bool {
	if h.at < 0 {
		return false
	}
	t.holes = append(t.holes, h)
	return true
}

// tailIndex is where a key's last eight bytes begin if they are n, else -1.
func tailIndex(key []byte, n uint64) int {
	at := len(key) - 8
	if at < 0 || binary.BigEndian.Uint64(key[at:]) != n {
		return -1
	}
	return at
}

// Fill makes the pairs of another transition, in new memory. An engine encodes the values of every
// transition again. A shared value would always be in the cache of the processor, and would not
// cost the same.
func (t *Template) Fill(of Identity) []Pair {
	out := make([]Pair, len(t.pairs))
	arena := make([]byte, 0, t.Bytes())
	for i, p := range t.pairs {
		begin := len(arena)
		arena = append(arena, p.Key...)
		middle := len(arena)
		arena = append(arena, p.Value...)
		out[i] = Pair{Key: arena[begin:middle:middle], Value: arena[middle:len(arena):len(arena)]}
	}
	for _, h := range t.holes {
		place := out[h.pair].Key[h.at:]
		switch h.kind {
		case holeRun:
			copy(place, of.Run)
		case holeID:
			copy(place, of.ID)
		case holeSeq:
			binary.BigEndian.PutUint64(place, of.First+h.offset)
		}
	}
	return out
}

// Bytes counts keys and values.
func (t *Template) Bytes() int {
	n := 0
	for _, p := range t.pairs {
		n += len(p.Key) + len(p.Value)
	}
	return n
}

// Records is how many records one transition appends.
func (t *Template) Records() uint64 { return t.records }

// Keys is how many keys one transition sets.
func (t *Template) Keys() int { return len(t.pairs) }
