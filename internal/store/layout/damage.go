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

// Damage describes a part of a store that is missing or has changed since it was written. If it is
// returned when a store is opened, the store is unchanged. It wraps [ErrDamaged], and a *machine.Error
// DATA_LOSS for clients.
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

// Unwrap returns ErrDamaged, and the error for clients. The latter contains no file names.
func (d *Damage) Unwrap() []error {
	return []error{ErrDamaged, &machine.Error{
		Code: machine.CodeDataLoss, Reason: "DATA_LOSS",
		Message: "stored data that the answer needs is damaged or missing; the operator finds what it is with 'pawl check' and restores a backup",
	}}
}

// Damaged returns a *[Damage] of a file. If file is "", it is the damage of a value.
func Damaged(file, format string, args ...any) error {
	return &Damage{File: file, Detail: fmt.Sprintf(format, args...)}
}

// Typed adds a *[Damage] to an error of the codec. Such an error means that stored bytes cannot be
// decoded. Typed returns other errors unchanged.
func Typed(err error) error {
	if errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, ErrDamaged) {
		return fmt.Errorf("%w: %w", err, Damaged("", "%v", err))
	}
	return err
}

// ValueOf calls read with the value of an iterator's row. The value is valid only during the call.
// Every value of an iterator must be read through ValueOf or [CopyOf], because these functions convert
// a missing value to a *[Damage].
func ValueOf(row *kv.Iterator, read func(value []byte) error) error {
	value, err := row.Value()
	if err != nil {
		return lost(row.Key(), err)
	}
	return read(value)
}

// CopyOf returns a copy of the value of an iterator's row. If the error is nil, the copy is not nil.
func CopyOf(row *kv.Iterator) ([]byte, error) {
	value, err := row.ValueCopy()
	if err != nil {
		return nil, lost(row.Key(), err)
	}
	return value, nil
}

// lost converts the error for a missing value to a *[Damage] that names the kind of the row.
func lost(key []byte, err error) error {
	if errors.Is(err, kv.ErrLost) {
		return Damaged("", "the value of a row %s is missing or fails its checksum", RowName(key))
	}
	return err
}

// RowName returns a readable name of a key's kind, for errors.
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
		return nil, lost(key, err)
	}
	return value, nil
}

// Has reports whether the current key of an iterator begins with p.
func Has(it *kv.Iterator, p []byte) bool {
	return it.Valid() && bytes.HasPrefix(it.Key(), p)
}
