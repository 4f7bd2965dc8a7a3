package codec

import (
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/seal"
)

// FormatSealed is the version byte of a sealed value, whose message is encrypted with the key of its
// run. Destroying the key erases the message. The message has two parts: a readable copy of the fields
// that remain after an erasure, and the whole message, encrypted:
//
//	version and fixed fields | length (varint) | readable part | encrypted message | slot of the key (8 bytes)
//
// The fixed fields are those that come before the message in a value of [Format].
const FormatSealed = 2

const slotBytes = 8

// Keys returns the encryption key of a run. slot is the number under which the key is stored. If the
// key was destroyed, the error is [seal.ErrDestroyed].
type Keys interface {
	Key(slot uint64) (*seal.Key, error)
}

// KeySlot reports whether a value is encrypted with the key of its run. It returns the slot (number) of
// this key.
func KeySlot(value []byte) (slot uint64, ok bool) {
	if len(value) <= slotBytes || value[0] != FormatSealed {
		return 0, false
	}
	return binary.BigEndian.Uint64(value[len(value)-slotBytes:]), true
}

// sealValue encrypts the message of a value: it converts a value of [Format] to a value of
// [FormatSealed]. plain is the value, and its message begins at the offset at. left is the readable
// part. The encryption also authenticates left and also, so that a change of either is detected.
func sealValue(key *seal.Key, plain []byte, at int, left, also []byte) []byte {
	message := plain[at:]
	b := make([]byte, at, at+len(left)+len(message)+seal.Overhead+slotBytes+4)
	copy(b, plain[:at])
	b[0] = FormatSealed
	b = protowire.AppendBytes(b, left)
	b = key.Seal(b, message, append(append([]byte(nil), also...), b[at:]...))
	return binary.BigEndian.AppendUint64(b, key.Slot)
}

// splitSealed splits a sealed value. left is the readable part of the message, readable is the same part with
// its length prefix, and sealed is the encrypted message.
func splitSealed(what string, value []byte, at int) (left, readable, sealed []byte, err error) {
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

// unseal decrypts a value of [FormatSealed] to a value of [Format]. It returns any other value unchanged. If
// the key was destroyed, erased is true and plain contains only the readable part.
func unseal(what string, value []byte, at int, also []byte, keys Keys) (plain []byte, erased bool, err error) {
	slot, ok := KeySlot(value)
	if !ok {
		return value, false, nil
	}
	left, readable, sealed, err := splitSealed(what, value, at)
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

// leftOf returns the readable part of a sealed value, in [Format]. A value that is not sealed is
// returned unchanged.
func leftOf(what string, value []byte, at int) ([]byte, error) {
	if _, ok := KeySlot(value); !ok {
		return value, nil
	}
	left, _, _, err := splitSealed(what, value, at)
	if err != nil {
		return nil, err
	}
	plain := append(append(make([]byte, 0, at+len(left)), value[:at]...), left...)
	plain[0] = Format
	return plain, nil
}

// These bytes are authenticated by the encryption, but not stored. Because of them, a value of one kind
// cannot be decrypted as another kind, and an entry cannot be moved to another place of the hash chain.
var alsoHead, alsoID = []byte("head"), []byte("id")

func alsoEntry(value []byte) []byte {
	return append([]byte("entry"), value[prevAt:entryAt]...)
}

// SealEntry encodes a journal entry like [EncodeEntry] and encrypts it with the key of its run. The
// hash is computed from the encrypted bytes. plain is the value before the encryption, without its
// hash.
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
	return value, plain, appendChainHash(value, len(value)-slotBytes), nil
}

// ReadEntry decodes the value of a journal entry, encrypted or not. If the run was erased, the entry
// contains only the readable part and is marked as erased.
func ReadEntry(run string, value []byte, keys Keys) (machine.Entry, error) {
	if _, ok := KeySlot(value); !ok {
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

// OpenEntry returns the value of a journal entry with its message decrypted by a key of keys. A value that is
// not encrypted is returned unchanged. If the key was destroyed, the result contains only the readable part.
func OpenEntry(value []byte, keys Keys) ([]byte, error) {
	if _, ok := KeySlot(value); !ok || len(value) < entryAt {
		return value, nil
	}
	plain, _, err := unseal("entry", value, entryAt, alsoEntry(value), keys)
	return plain, err
}

// SealHead encrypts value, the head (current state) or checkpoint that [EncodeHead] made from st.
func SealHead(key *seal.Key, value []byte, st *machine.State, hash [32]byte) []byte {
	left := leftOfState(st)
	return sealValue(key, value, stateAt, EncodeHead(left, hash)[stateAt:], alsoHead)
}

// ReadHead decodes the value of a head or checkpoint, encrypted or not. If the run was erased, the
// state contains only the readable part, and Erased is set to its run and key. The caller must then set
// the other fields of Erased.
func ReadHead(value []byte, keys Keys) (*machine.State, error) {
	slot, ok := KeySlot(value)
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

// LeftOfHead returns the part of a head's state that remains after an erasure. If the head is not
// encrypted, it returns the whole state.
func LeftOfHead(value []byte) (*machine.State, error) {
	plain, err := leftOf("head", value, stateAt)
	if err != nil {
		return nil, err
	}
	st, err := DecodeHead(plain)
	if err == nil {
		st.Key, _ = KeySlot(value)
	}
	return st, err
}

// SealDedupe returns the encrypted value of an idempotency row (a used request id). Only the hash of
// the request's body is hidden.
func SealDedupe(key *seal.Key, d *machine.Dedupe) []byte {
	left := *d
	left.BodyHash = [32]byte{}
	return sealValue(key, EncodeDedupe(d), 1, EncodeDedupe(&left)[1:], alsoID)
}

// ReadDedupe decodes the value of an idempotency row, encrypted or not. erased means that the hash of
// the request's body is lost because the key was destroyed.
func ReadDedupe(key machine.Dedupe, value []byte, keys Keys) (d machine.Dedupe, erased bool, err error) {
	plain, erased, err := unseal("id", value, 1, alsoID, keys)
	if err != nil {
		return key, false, err
	}
	d, err = DecodeDedupe(key, plain)
	return d, erased, err
}

// LeftOfDedupe returns the part of an idempotency row (a used request id) that remains after an
// erasure.
func LeftOfDedupe(key machine.Dedupe, value []byte) (machine.Dedupe, error) {
	plain, err := leftOf("id", value, 1)
	if err != nil {
		return key, err
	}
	return DecodeDedupe(key, plain)
}

// LeftOfEntry returns the part of a journal entry that remains after an erasure of its run. If the entry is not
// encrypted, it returns the whole entry.
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
