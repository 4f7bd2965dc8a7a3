package layout

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
)

// ErrDamaged: what is stored is not what was written; see [Damage].
var ErrDamaged = errors.New("the store is damaged")

// Damage describes the part of a store that is missing or has changed since it was written.
// When opening returns it, the store is unchanged. It is [ErrDamaged], and a *machine.Refusal
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

// Unwrap returns the kind, and the error for callers, which has no file names.
func (d *Damage) Unwrap() []error {
	return []error{ErrDamaged, &machine.Error{
		Code: machine.CodeDataLoss, Reason: "DATA_LOSS",
		Message: "stored data that the answer needs is damaged or missing; the operator finds what it is with 'pawl check' and restores a backup",
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

// ValueOf shows the value of a row, valid during the call. Every value of an iterator is read
// through it or [CopyOf].
func ValueOf(row *kv.Iterator, read func(value []byte) error) error {
	value, err := row.Value()
	if err != nil {
		return lost(row.Key(), err)
	}
	return read(value)
}

// CopyOf is the value of a row; never nil without an error.
func CopyOf(row *kv.Iterator) ([]byte, error) {
	value, err := row.ValueCopy()
	if err != nil {
		return nil, lost(row.Key(), err)
	}
	return value, nil
}

// lost names the row whose value is missing.
func lost(key []byte, err error) error {
	if errors.Is(err, kv.ErrLost) {
		return Damaged("", "the value of a row %s is missing or fails its checksum", RowName(key))
	}
	return err
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
	value, err := txn.Get(key)
	if err != nil {
		return nil, lost(key, err)
	}
	return value, nil
}

// Has reports whether the current key of an iterator begins with p.
func Has(it *kv.Iterator, p []byte) bool {
	return it.Valid() && bytes.HasPrefix(it.Key(), p)
}
