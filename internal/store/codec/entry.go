package codec

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Format is the version byte at the beginning of every value. This version of the program cannot read a
// value with another first byte, except [FormatSealed].
const Format = 1

// These constants are the parts of an entry's value, in this order: version byte, cursor, hash,
// previous hash, entry bytes. The previous hash is next to the entry bytes, so that the hashed bytes
// are contiguous.
const (
	cursorAt = 1
	hashAt   = cursorAt + 8
	prevAt   = hashAt + sha256.Size
	entryAt  = prevAt + sha256.Size
)

// EncodeEntry returns the value of one journal entry with the cursor 0, and the hash of the chain after
// the entry, which is SHA-256(prev ‖ entry bytes). [SetCursor] sets the cursor later. The records must
// have the seqs first, first+1 and so on.
func EncodeEntry(prev [32]byte, first uint64, in *machine.Input, records []machine.Record) ([]byte, [32]byte, error) {
	b, err := entryOf(prev, first, in, records)
	if err != nil {
		return nil, [32]byte{}, err
	}
	return b, chained(b, len(b)), nil
}

// chained computes the hash of the chain after an entry, over the bytes up to end, and writes the hash
// into the entry's value b.
func chained(b []byte, end int) [32]byte {
	hash := sha256.Sum256(b[prevAt:end])
	copy(b[hashAt:], hash[:])
	return hash
}

// entryOf returns the value of an entry without the hash.
func entryOf(prev [32]byte, first uint64, in *machine.Input, records []machine.Record) ([]byte, error) {
	b := make([]byte, entryAt, entryAt+512)
	b[0] = Format
	copy(b[prevAt:], prev[:])
	b = appendUint(b, 1, first)
	b, err := appendInput(b, 2, in)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("encode entry: no records")
	}
	of := bodiesOf(in.Command)
	for i := range records {
		if records[i].Seq != first+uint64(i) {
			return nil, fmt.Errorf("encode entry: record %d has seq %d, want %d", i, records[i].Seq, first+uint64(i))
		}
		if b, err = appendRecord(b, 3, in, &of, &records[i]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// SetCursor writes the cursor into a value that [EncodeEntry] made. The cursor is the entry's position
// in the order of its namespace. It is not part of the hashed bytes.
func SetCursor(value []byte, cursor uint64) {
	binary.BigEndian.PutUint64(value[cursorAt:], cursor)
}

// EntryCursor returns the cursor of a stored entry, sealed or not. It returns 0 if the value is not
// an entry.
func EntryCursor(value []byte) uint64 {
	if len(value) < entryAt || value[0] != Format && value[0] != FormatSealed {
		return 0
	}
	return binary.BigEndian.Uint64(value[cursorAt:])
}

// DecodeEntry decodes a journal value of the run with the id run. It does not check the hash, see
// [Chained].
func DecodeEntry(run string, value []byte) (machine.Entry, error) {
	e := machine.Entry{RunID: run}
	if err := checkFormat("entry", value, entryAt); err != nil {
		return e, err
	}
	e.Cursor = binary.BigEndian.Uint64(value[cursorAt:])
	copy(e.Hash[:], value[hashAt:])
	copy(e.PrevHash[:], value[prevAt:])
	var of bodies
	s := newScan("entry", value[entryAt:])
	for s.next() {
		switch s.num {
		case 1:
			e.First = s.uint()
		case 2:
			var err error
			e.Input, err = readInput(s.message())
			s.keep(err)
			of = bodiesOf(e.Input.Command)
		case 3:
			if e.Input.Command == nil {
				s.fail("record before input")
				break
			}
			r, err := readRecord(s.message(), &e.Input, &of, e.First+uint64(len(e.Records)))
			s.keep(err)
			e.Records = append(e.Records, r)
		default:
			s.unknown()
		}
	}
	if s.err == nil && (e.First == 0 || len(e.Records) == 0) {
		return e, fmt.Errorf("%w: entry without records", ErrCorrupt)
	}
	return e, s.err
}

// Chained reports whether the hash in the value is the hash of its bytes.
func Chained(value []byte) bool {
	if len(value) < entryAt {
		return false
	}
	end := len(value)
	if _, ok := Sealed(value); ok && end >= entryAt+slotBytes {
		end -= slotBytes
	}
	hash := sha256.Sum256(value[prevAt:end])
	return bytes.Equal(hash[:], value[hashAt:prevAt])
}

// checkFormat returns an error if a value is too short or has another version byte.
func checkFormat(what string, value []byte, least int) error {
	if len(value) < least {
		return fmt.Errorf("%w: %s of %d bytes", ErrCorrupt, what, len(value))
	}
	if value[0] != Format {
		return fmt.Errorf("%w: %s has format %d, this version reads %d", ErrCorrupt, what, value[0], Format)
	}
	return nil
}
