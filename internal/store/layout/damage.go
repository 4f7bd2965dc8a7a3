package layout

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
)

// ErrDamaged: what is stored is not what was written; see [Damage].
var ErrDamaged = errors.New("the store is damaged")

// Damage says what of a store is not as it was written. At opening nothing was
// changed by the time it is returned. It is [ErrDamaged], and a *machine.Refusal
// DATA_LOSS for callers.
type Damage struct {
	// File is the name of the file in the data directory, "" where only a value is
	// known.
	File string
	// Detail says what is wrong with it.
	Detail string
}

// Error tells the file and what is wrong with it.
func (d *Damage) Error() string {
	if d.File == "" {
		return ErrDamaged.Error() + ": " + d.Detail
	}
	return fmt.Sprintf("%s: %s: %s", ErrDamaged, d.File, d.Detail)
}

// Unwrap gives the kind, and what a caller is told: no file names.
func (d *Damage) Unwrap() []error {
	return []error{ErrDamaged, &machine.Refusal{
		Code: machine.CodeDataLoss, Reason: "DATA_LOSS",
		Message: "stored data that the answer needs is damaged or missing; the operator finds what it is with 'sidecar check' and restores a backup",
	}}
}

// Damaged makes a *[Damage]: of a file, or of a value for "".
func Damaged(file, format string, args ...any) error {
	return &Damage{File: file, Detail: fmt.Sprintf(format, args...)}
}

// Typed gives errors of stored bytes that make no sense their type.
func Typed(err error) error {
	if errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, ErrDamaged) {
		return fmt.Errorf("%w: %w", err, Damaged("", "%v", err))
	}
	return err
}

// ValueOf shows the value of an item, valid during the call. Every value is read
// through it: Badger only logs that a value is missing from its value log or fails
// its checksum, and gives no bytes and no error.
func ValueOf(item *badger.Item, read func(value []byte) error) error {
	return item.Value(func(v []byte) error {
		if len(v) == 0 && item.ValueSize() > 0 {
			return Damaged("", "the value of a row %s is missing or fails its checksum", RowName(item.Key()))
		}
		return read(v)
	})
}

// CopyOf is the value of an item; never nil without an error.
func CopyOf(item *badger.Item) ([]byte, error) {
	var value []byte
	err := ValueOf(item, func(v []byte) error {
		value = append(make([]byte, 0, len(v)), v...)
		return nil
	})
	return value, err
}

// RowName names the kind of a key for people.
func RowName(key []byte) string {
	if len(key) > 0 && Kinds[key[0]].Row != "" {
		return fmt.Sprintf("%q", Kinds[key[0]].Row)
	}
	return "of no known kind"
}

// Get reads one key into a copy; nil if there is none.
func Get(txn *Txn, key []byte) ([]byte, error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return CopyOf(item)
}

// Has reports whether the current key of an iterator begins with p.
func Has(it *badger.Iterator, p []byte) bool {
	return it.Valid() && bytes.HasPrefix(it.Item().Key(), p)
}
