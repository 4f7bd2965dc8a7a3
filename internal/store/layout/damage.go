package layout

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
)

// ErrDamaged means that stored data differs from what was written, see [Damage].
var ErrDamaged = errors.New("the store is damaged")

// Damage describes a part of a store that is missing or has changed since it was written. If opening a store
// returns it, the data of the store is unchanged. It wraps [ErrDamaged], and a *machine.Error DATA_LOSS for
// clients.
type Damage struct {
	// File is the name of the damaged file in the data directory. It is "" if only the damaged value is
	// known.
	File string
	// Detail describes the damage.
	Detail string
}

// Error returns a text with the file and the damage.
func (d *Damage) Error() string {
	if d.File == "" {
		return ErrDamaged.Error() + ": " + d.Detail
	}
	return fmt.Sprintf("%s: %s: %s", ErrDamaged, d.File, d.Detail)
}

// Unwrap returns ErrDamaged, and the error DATA_LOSS for clients, which contains no file names.
func (d *Damage) Unwrap() []error {
	return []error{ErrDamaged, &machine.Error{
		Code: machine.CodeDataLoss, Reason: "DATA_LOSS",
		Message: "stored data that the answer needs is damaged or missing; the operator finds what it is with 'pawl check' and restores a backup",
	}}
}

// NewDamage returns a *[Damage] of a file, or of a stored value if file is "".
func NewDamage(file, format string, args ...any) error {
	return &Damage{File: file, Detail: fmt.Sprintf(format, args...)}
}

// Typed adds a *[Damage] to an error of the codec, which means that stored bytes cannot be decoded.
// Other errors are returned unchanged.
func Typed(err error) error {
	if errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, ErrDamaged) {
		return fmt.Errorf("%w: %w", err, NewDamage("", "%v", err))
	}
	return err
}

// ValueOf calls read with the value of an iterator's row, which is valid only during the call. Every
// value of an iterator must be read with ValueOf or [CopyOf], because they convert the error for a
// missing value to a *[Damage].
func ValueOf(row *kv.Iterator, read func(value []byte) error) error {
	value, err := row.Value()
	if err != nil {
		return missingValue(row.Key(), err)
	}
	return read(value)
}

// CopyOf returns a copy of the value of an iterator's row. If the error is nil, the copy is not nil.
func CopyOf(row *kv.Iterator) ([]byte, error) {
	value, err := row.ValueCopy()
	if err != nil {
		return nil, missingValue(row.Key(), err)
	}
	return value, nil
}

// missingValue converts the error for a missing value to a *[Damage] that names the kind of its row.
func missingValue(key []byte, err error) error {
	if errors.Is(err, kv.ErrLost) {
		return NewDamage("", "the value of a row %s is missing or fails its checksum", RowName(key))
	}
	return err
}

// RowName returns a readable name of the kind of a key, for errors.
func RowName(key []byte) string {
	if len(key) > 0 && Kinds[key[0]].Row != "" {
		return fmt.Sprintf("%q", Kinds[key[0]].Row)
	}
	return "of no known kind"
}

// Get returns a copy of the value of a key. It returns nil if the key does not exist.
func Get(txn *Txn, key []byte) ([]byte, error) {
	value, err := txn.Get(key)
	if err != nil {
		return nil, missingValue(key, err)
	}
	return value, nil
}

// AtPrefix reports whether the iterator is at a key that begins with p.
func AtPrefix(it *kv.Iterator, p []byte) bool {
	return it.Valid() && bytes.HasPrefix(it.Key(), p)
}
