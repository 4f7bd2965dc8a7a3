package codec

import (
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/seal"
)

// FormatSealed is the version byte of a value whose message is sealed under its run's key:
//
//	... | length (varint) | what is left of it | the message, sealed | slot of the key (8)
//
// where ... is what stands before the message in a value of [Format].
const FormatSealed = 2

const slotBytes = 8

// Keys finds the keys of runs; [seal.ErrDestroyed].
type Keys interface {
	Key(slot uint64) (*seal.Key, error)
}

// Sealed reports whether a value is sealed, and where its key is.
func Sealed(value []byte) (slot uint64, ok bool) {
	if len(value) <= slotBytes || value[0] != FormatSealed {
		return 0, false
	}
	return binary.BigEndian.Uint64(value[len(value)-slotBytes:]), true
}

// sealValue turns a value of [Format], whose message begins at at, into one of [FormatSealed].
// left is the readable rest of the message. A change of also is detected as well.
func sealValue(key *seal.Key, plain []byte, at int, left, also []byte) []byte {
	message := plain[at:]
	b := make([]byte, at, at+len(left)+len(message)+seal.Overhead+slotBytes+4)
	copy(b, plain[:at])
	b[0] = FormatSealed
	b = protowire.AppendBytes(b, left)
	b = key.Seal(b, message, append(append([]byte(nil), also...), b[at:]...))
	return binary.BigEndian.AppendUint64(b, key.Slot)
}

// cut takes a sealed value apart: the message's rest, which it is sealed with, and it.
func cut(what string, value []byte, at int) (left, readable, sealed []byte, err error) {
	if len(value) < at+slotBytes {
		return nil, nil, nil, fmt.Errorf("%w: sealed %s of %d bytes", ErrCorrupt, what, len(value))
	}
	body := value[at : len(value)-slotBytes]
	left, n := protowire.ConsumeBytes(body)
	if n < 0 {
		return nil, nil, nil, fmt.Errorf("%w: sealed %s without what is left of it", ErrCorrupt, what)
	}
	return left, body[:n], body[n:], nil
}

// unseal makes a value of [Format] again out of one of [FormatSealed]; erased: out of what
// is left of it, since its key was destroyed.
func unseal(what string, value []byte, at int, also []byte, keys Keys) (plain []byte, erased bool, err error) {
	slot, ok := Sealed(value)
	if !ok {
		return value, false, nil
	}
	left, readable, sealed, err := cut(what, value, at)
	if err != nil {
		return nil, false, err
	}
	if keys == nil {
		return nil, false, fmt.Errorf("%w: %s is sealed, and there are no keys", ErrCorrupt, what)
	}
	key, err := keys.Key(slot)
	if err != nil && !errors.Is(err, seal.ErrDestroyed) {
		return nil, false, err
	}
	message := left
	if key != nil {
		if message, err = key.Open(sealed, append(append([]byte(nil), also...), readable...)); err != nil {
			return nil, false, fmt.Errorf("%w: %s: %w", ErrCorrupt, what, err)
		}
	}
	plain = append(append(make([]byte, 0, at+len(message)), value[:at]...), message...)
	plain[0] = Format
	return plain, key == nil, nil
}

// leftOf is the part of a value of [FormatSealed] that stays readable, as one of [Format];
// other values are what they are.
func leftOf(what string, value []byte, at int) ([]byte, error) {
	if _, ok := Sealed(value); !ok {
		return value, nil
	}
	left, _, _, err := cut(what, value, at)
	if err != nil {
		return nil, err
	}
	plain := append(append(make([]byte, 0, at+len(left)), value[:at]...), left...)
	plain[0] = Format
	return plain, nil
}

// What a value is sealed with besides its rest: no value opens as one of another kind, and
// an entry not in another place.
var alsoHead, alsoID = []byte("head"), []byte("id")

func alsoEntry(value []byte) []byte {
	return append([]byte("entry"), value[prevAt:entryAt]...)
}

// SealEntry is [EncodeEntry] with what it makes sealed under a key; the hash is over what is
// stored. plain is the entry as it is before, without its hash.
func SealEntry(key *seal.Key, prev [32]byte, first uint64, in *machine.Input, records []machine.Record) (value, plain []byte, hash [32]byte, err error) {
	if plain, err = entryOf(prev, first, in, records); err != nil {
		return nil, nil, hash, err
	}
	leftIn := leftOfInput(in)
	left, err := entryOf([32]byte{}, first, &leftIn, leftOfRecords(records))
	if err != nil {
		return nil, nil, hash, err
	}
	value = sealValue(key, plain, entryAt, left[entryAt:], alsoEntry(plain))
	return value, plain, chained(value, len(value)-slotBytes), nil
}

// ReadEntry is [DecodeEntry] for every value. Of an erased run the entry has what is left of
// it, and says so.
func ReadEntry(run string, value []byte, keys Keys) (machine.Entry, error) {
	if _, ok := Sealed(value); !ok {
		return DecodeEntry(run, value)
	}
	if len(value) < entryAt {
		return machine.Entry{RunID: run}, fmt.Errorf("%w: entry of %d bytes", ErrCorrupt, len(value))
	}
	plain, erased, err := unseal("entry", value, entryAt, alsoEntry(value), keys)
	if err != nil {
		return machine.Entry{RunID: run}, err
	}
	e, err := DecodeEntry(run, plain)
	e.Erased = erased
	return e, err
}

// OpenEntry is the message of an entry's value as bytes, with a key of the caller's; that of
// a value that is not sealed is all of it.
func OpenEntry(value []byte, keys Keys) ([]byte, error) {
	if _, ok := Sealed(value); !ok || len(value) < entryAt {
		return value, nil
	}
	plain, _, err := unseal("entry", value, entryAt, alsoEntry(value), keys)
	return plain, err
}

// SealHead seals the value of a head or checkpoint that [EncodeHead] made of the state.
func SealHead(key *seal.Key, value []byte, st *machine.State, hash [32]byte) []byte {
	left := leftOfState(st)
	return sealValue(key, value, stateAt, EncodeHead(left, hash)[stateAt:], alsoHead)
}

// ReadHead is [DecodeHead] for every value. Of an erased run the state has what is left of
// it, and Erased, of which the caller fills in what it knows.
func ReadHead(value []byte, keys Keys) (*machine.State, error) {
	slot, ok := Sealed(value)
	if !ok {
		return DecodeHead(value)
	}
	plain, erased, err := unseal("head", value, stateAt, alsoHead, keys)
	if err != nil {
		return nil, err
	}
	st, err := DecodeHead(plain)
	if err != nil {
		return nil, err
	}
	st.Key = slot
	if erased {
		st.Erased = &machine.Erased{RunID: st.RunID, Key: slot}
	}
	return st, nil
}

// LeftOfHead is what is left of a head's state once its run is erased: all of it where it is
// not sealed.
func LeftOfHead(value []byte) (*machine.State, error) {
	plain, err := leftOf("head", value, stateAt)
	if err != nil {
		return nil, err
	}
	st, err := DecodeHead(plain)
	if err == nil {
		st.Key, _ = Sealed(value)
	}
	return st, err
}

// SealDedupe seals the value of an id's row: its hash of a request's body.
func SealDedupe(key *seal.Key, d *machine.Dedupe) []byte {
	left := *d
	left.BodyHash = [32]byte{}
	return sealValue(key, EncodeDedupe(d), 1, EncodeDedupe(&left)[1:], alsoID)
}

// ReadDedupe is [DecodeDedupe] for every value; erased: the hash of the body is gone.
func ReadDedupe(key machine.Dedupe, value []byte, keys Keys) (d machine.Dedupe, erased bool, err error) {
	plain, erased, err := unseal("id", value, 1, alsoID, keys)
	if err != nil {
		return key, false, err
	}
	d, err = DecodeDedupe(key, plain)
	return d, erased, err
}

// LeftOfDedupe is what is left of an id's row once its run is erased.
func LeftOfDedupe(key machine.Dedupe, value []byte) (machine.Dedupe, error) {
	plain, err := leftOf("id", value, 1)
	if err != nil {
		return key, err
	}
	return DecodeDedupe(key, plain)
}

// LeftOfEntry is what is left of an entry once its run is erased.
func LeftOfEntry(run string, value []byte) (machine.Entry, error) {
	if len(value) < entryAt {
		return machine.Entry{RunID: run}, fmt.Errorf("%w: entry of %d bytes", ErrCorrupt, len(value))
	}
	plain, err := leftOf("entry", value, entryAt)
	if err != nil {
		return machine.Entry{RunID: run}, err
	}
	return DecodeEntry(run, plain)
}
