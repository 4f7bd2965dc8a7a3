package store

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
)

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

func damage(file, format string, args ...any) error {
	return &Damage{File: file, Detail: fmt.Sprintf(format, args...)}
}

// typed gives errors of stored bytes that make no sense their type.
func typed(err error) error {
	if errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, ErrDamaged) {
		return fmt.Errorf("%w: %w", err, damage("", "%v", err))
	}
	return err
}

// valueOf shows the value of an item, valid during the call. Every value is read
// through it: Badger only logs that a value is missing from its value log or fails
// its checksum, and gives no bytes and no error.
func valueOf(item *badger.Item, read func(value []byte) error) error {
	return item.Value(func(v []byte) error {
		if len(v) == 0 && item.ValueSize() > 0 {
			return damage("", "the value of a row %s is missing or fails its checksum", rowName(item.Key()))
		}
		return read(v)
	})
}

// copyOf is the value of an item; never nil without an error.
func copyOf(item *badger.Item) ([]byte, error) {
	var value []byte
	err := valueOf(item, func(v []byte) error {
		value = append(make([]byte, 0, len(v)), v...)
		return nil
	})
	return value, err
}

// rowName names the kind of a key for people.
func rowName(key []byte) string {
	if len(key) > 0 && kinds[key[0]].row != "" {
		return fmt.Sprintf("%q", kinds[key[0]].row)
	}
	return "of no known kind"
}
