package badgerengine

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/keyring"
)

// ErrSameKey means that the new key is equal to the current key.
var ErrSameKey = errors.New("ENCRYPTION_KEY_SAME: the new key is the one that the directory has")

// RotateKey wraps the data keys of a directory with another master key, in one rename. It does not
// rewrite any data file. Until it is complete, both master keys open the file of run keys. If it is
// called again with the same keys, it returns ErrSameKey.
//
// Errors: [datadir.ErrLocked], *[datadir.KeyError], *[layout.Damage] (acknowledged data is missing). If
// RotateKey returns one of these errors, the directory stays unchanged.
func RotateKey(dir string, from, to []byte) (err error) {
	lock, err := datadir.LockDir(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if bytes.Equal(from, to) {
		return ErrSameKey
	}
	found, err := datadir.Inspect(dir, from)
	if isWrongKey(err) {
		if _, again := datadir.Inspect(dir, to); again == nil {
			// After a crash, the file of run keys may still contain a wrapped key that the old master
			// key opens.
			return errors.Join(ErrSameKey, keyring.Unwrap(dir, to))
		}
	}
	if err != nil {
		return err
	}
	// A crash may have left an incomplete data key, with which Badger could not read the file. It
	// is removed.
	if err := found.DropUnborn(); err != nil {
		return err
	}
	keys, err := badger.OpenKeyRegistry(badger.KeyRegistryOptions{Dir: dir, ReadOnly: true, EncryptionKey: from})
	if err != nil {
		return fmt.Errorf("read %s: %w", datadir.RegistryName, err)
	}
	if err := keyring.Rewrap(dir, from, to); err != nil {
		return err
	}
	if err := badger.WriteKeyRegistry(keys, badger.KeyRegistryOptions{Dir: dir, EncryptionKey: to}); err != nil {
		return fmt.Errorf("write %s: %w", datadir.RegistryName, err)
	}
	return keyring.Unwrap(dir, to)
}

func isWrongKey(err error) bool {
	fault, ok := errors.AsType[*datadir.KeyError](err)
	return ok && fault.Reason == datadir.KeyWrong
}
