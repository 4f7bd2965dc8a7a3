package server

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/store/badgerengine"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
)

// ErrSameKey means that the directory already has the new key.
var ErrSameKey = badgerengine.ErrSameKey

// RotateKey encrypts the data keys of a directory with the key in another file. Errors: [ErrUnusable],
// [ErrSameKey]. If it returns one of them, the directory is unchanged.
func RotateKey(data Data, to string) error {
	if data.Dir == "" || dsn.Is(data.Dir) {
		return fmt.Errorf("%w: a database has no key of Pawl's to change: its disks and its connections are encrypted by who runs it", ErrUnusable)
	}
	if held, err := datadir.Holds(data.Dir); err != nil || !held {
		return errors.Join(fmt.Errorf("%w: %s holds no store", ErrUnusable, data.Dir), err)
	}
	opts, err := data.options()
	if err != nil {
		return err
	}
	key, err := readKey(to)
	if err == nil {
		err = badgerengine.RotateKey(data.Dir, opts.EncryptionKey, key)
	} else {
		err = fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	if unusable(err) {
		err = fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return err
}
