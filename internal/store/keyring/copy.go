package keyring

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/internal/store/datadir"
)

// ErrForeign means that the target of a copy of keys contains the keys of another store.
var ErrForeign = errors.New("it has the keys of another store")

// Copy copies a file of run keys into a directory and syncs it. It returns false if the file does not exist.
// The file must not change during the call. Copy overwrites an existing copy in place. So keys that were
// destroyed are also destroyed in the copy. No slot (the place of one key) crosses a disk sector, so after a
// crash each slot is either old or new.
func Copy(file, dir string) (copied bool, err error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return copyInto(data, dir)
}

// CopyTo copies the keys of an open ring into a directory, like [Copy]. During the call, no key is
// created or destroyed.
func (r *Ring) CopyTo(dir string) (copied bool, err error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.fileExists {
		return false, nil
	}
	data := make([]byte, slotPlace(r.slots+1))
	n, err := r.medium.ReadAt(data, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return copyInto(data[:n], dir)
}

// copyInto writes a file of run keys into a directory. If the directory already has the file, it must be a
// state of the same file.
func copyInto(data []byte, dir string) (copied bool, err error) {
	h, err := decodeHeader(data)
	if err != nil {
		return false, err
	}
	path := filepath.Join(dir, Name)
	to, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return true, createFile(path, data)
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if there, err := readHeader(to); err != nil || there.id != h.id {
		return false, errors.Join(fmt.Errorf("%s: %w", path, ErrForeign), err)
	}
	_, err = to.WriteAt(data, 0)
	return true, errors.Join(err, to.Sync())
}

// createFile creates a file with the given bytes. The file gets its name only when it is complete and
// synced.
func createFile(path string, data []byte) error {
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(data, 0)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return errors.Join(os.Rename(path+".new", path), datadir.SyncDir(filepath.Dir(path)))
}

// Rewrap adds a second master key to a directory's file of run keys. The file's own key is then stored
// twice, encrypted with each master key. Both master keys open the file until [Unwrap] removes one of
// the two copies. If the directory has none, Rewrap returns nil.
func Rewrap(dir string, from, to []byte) error {
	return change(dir, func(h *header) (place int, wrap []byte, err error) {
		key, at, err := h.unwrap(from)
		if err != nil {
			return 0, nil, err
		}
		wrap, err = sealedUnder(masterOf(to), key)
		// 1 - at is the index of the other place for the key of the file.
		return 1 - at, wrap, err
	})
}

// Unwrap removes one of two copies of the key that encrypts the file of run keys: the copy that the
// master key kept does not open. If kept opens neither copy, Unwrap changes nothing and returns an
// error.
func Unwrap(dir string, kept []byte) error {
	return change(dir, func(h *header) (int, []byte, error) {
		_, at, err := h.unwrap(kept)
		// 1 - at is the index of the other place for the key of the file.
		return 1 - at, nil, err
	})
}

// change writes one of the two encrypted copies of the key with which the file of run keys is
// encrypted, and syncs the file.
func change(dir string, to func(h *header) (place int, wrap []byte, err error)) (err error) {
	file, err := os.OpenFile(filepath.Join(dir, Name), os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	h, err := readHeader(file)
	if err != nil {
		return err
	}
	place, wrap, err := to(&h)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(encodeWrap(wrap), int64(wrapsAt+place*wrapSize))
	return errors.Join(err, file.Sync())
}

// Extend makes the file of run keys in a directory so long that it has place for the given number of keys. The added
// places contain no valid key, so no run can use them.
func Extend(dir string, keys uint64) error {
	file, err := os.OpenFile(filepath.Join(dir, Name), os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if size := slotPlace(keys + 1); err == nil && info.Size() < size {
		err = errors.Join(file.Truncate(size), file.Sync())
	}
	return errors.Join(err, file.Close())
}
