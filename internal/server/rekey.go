package server

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/store/badgerengine"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
)

// ErrSameKey means that the data directory is already encrypted with the new key.
var ErrSameKey = badgerengine.ErrSameKey

// RotateKey encrypts the data keys of a directory with another encryption key, which is in the file to.
// Errors: [ErrUnusable], [ErrSameKey]. After these errors the directory is unchanged.
func RotateKey(data Data, to string) error {
	if data.Dir == "" || dsn.IsURL(data.Dir) {
		return fmt.Errorf("%w: a database has no key of Pawl's to change: its operator encrypts its disks and its connections", ErrUnusable)
	}
	if held, err := datadir.HasStore(data.Dir); err != nil || !held {
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
	return marked(err)
}
