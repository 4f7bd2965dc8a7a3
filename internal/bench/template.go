package bench

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// pair is one key that a transition sets.
type pair struct{ key, value []byte }

// template is what one transition of the engine writes, so that the yardsticks
// write the same: equally many keys, of the same form and order, with values of
// the same bytes. Only what makes keys differ is filled in anew.
type template struct {
	pairs []pair
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

// identity is what makes one transition's keys its own.
type identity struct {
	// run and id have the lengths of the captured ones.
	run, id string
	// first is the number of the transition's first record.
	first uint64
}

// newTemplate finds, in the captured keys, where the identity of the captured
// transition of so many records stands.
func newTemplate(pairs []pair, of identity, records uint64) (*template, error) {
	if len(pairs) == 0 {
		return nil, errors.New("the captured transition writes nothing")
	}
	t := &template{pairs: pairs, records: records}
	for i := range pairs {
		t.dig(i, of)
	}
	return t, t.check(of)
}

// dig finds the holes of one key.
func (t *template) dig(i int, of identity) {
	key := t.pairs[i].key
	if t.mark(hole{pair: i, at: bytes.Index(key, []byte(of.run)), kind: holeRun}) {
		t.mark(hole{pair: i, at: bytes.Index(key, []byte(of.id)), kind: holeID})
		for offset := range t.records {
			t.mark(hole{pair: i, at: tailIndex(key, of.first+offset), kind: holeSeq, offset: offset})
		}
	}
}

// check proves that the next transition of the same run would write other keys.
func (t *template) check(of identity) error {
	next := of
	next.first += t.records
	next.id = strings.Repeat("x", len(of.id))
	for i, p := range t.fill(next) {
		if bytes.Equal(p.key, t.pairs[i].key) {
			return fmt.Errorf("captured key %q is the same in every transition", p.key)
		}
	}
	return nil
}

// mark keeps a hole that was found.
func (t *template) mark(h hole) bool {
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

// fill makes the pairs of another transition, in memory of its own: an engine
// encodes the values of every transition anew, so a shared value that is always
// warm in the processor's cache would not be the same bytes.
func (t *template) fill(of identity) []pair {
	out := make([]pair, len(t.pairs))
	arena := make([]byte, 0, t.bytes())
	for i, p := range t.pairs {
		begin := len(arena)
		arena = append(arena, p.key...)
		middle := len(arena)
		arena = append(arena, p.value...)
		out[i] = pair{key: arena[begin:middle:middle], value: arena[middle:len(arena):len(arena)]}
	}
	for _, h := range t.holes {
		place := out[h.pair].key[h.at:]
		switch h.kind {
		case holeRun:
			copy(place, of.run)
		case holeID:
			copy(place, of.id)
		case holeSeq:
			binary.BigEndian.PutUint64(place, of.first+h.offset)
		}
	}
	return out
}

// bytes counts keys and values.
func (t *template) bytes() int {
	n := 0
	for _, p := range t.pairs {
		n += len(p.key) + len(p.value)
	}
	return n
}
