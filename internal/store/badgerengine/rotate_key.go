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

// RotateKey encrypts the data keys of a directory with another master key. It rewrites no data file,
// and the change takes effect with one rename. Until then, both master keys open the file with the keys
// of erasable runs. If RotateKey is called again with the same keys, it returns ErrSameKey.
//
// Errors: [datadir.ErrLocked], *[datadir.KeyError], *[layout.Damage] (acknowledged data is missing).
// After these errors the directory is unchanged.
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
			// After a crash, the file with the keys of erasable runs may still contain a copy that the
			// old master key opens. Unwrap removes it.
			return errors.Join(ErrSameKey, keyring.Unwrap(dir, to))
		}
	}
	if err != nil {
		return err
	}
	// A crash may have left an incomplete data key, with which Badger could not read the file. It is
	// removed.
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
