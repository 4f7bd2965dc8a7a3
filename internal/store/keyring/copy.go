package keyring

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/internal/store/datadir"
)

// ErrForeign: the file that is there has the keys of another store.
var ErrForeign = errors.New("it has the keys of another store")

// Copy copies a file of keys into a directory, synced; false: there is no file. The file must
// not change during the call. An existing copy is overwritten in place, slot by slot, so that
// destroyed keys are destroyed in the copy as well, and a crash leaves each slot old or new.
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

// CopyTo is [Copy] of what the ring has; no key is made or destroyed meanwhile.
func (r *Ring) CopyTo(dir string) (copied bool, err error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.there {
		return false, nil
	}
	data := make([]byte, slotPlace(r.slots+1))
	n, err := r.medium.ReadAt(data, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return copyInto(data[:n], dir)
}

func copyInto(data []byte, dir string) (copied bool, err error) {
	h, err := decodeHeader(data)
	if err != nil {
		return false, err
	}
	path := filepath.Join(dir, Name)
	to, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return true, place(path, data)
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

// place makes a file that has its name only when it is whole and on disk.
func place(path string, data []byte) error {
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

// Rewrap wraps the key of a directory's file under a second master key. Both keys open it until
// Unwrap removes one. Without a file it returns nil.
func Rewrap(dir string, from, to []byte) error {
	return change(dir, func(h *header) (place int, wrap []byte, err error) {
		key, at, err := h.unwrap(from)
		if err != nil {
			return 0, nil, err
		}
		wrap, err = sealedUnder(masterOf(to), key)
		return 1 - at, wrap, err
	})
}

// Unwrap writes over what opens the file under a master key, if another one does too.
func Unwrap(dir string, kept []byte) error {
	return change(dir, func(h *header) (int, []byte, error) {
		_, at, err := h.unwrap(kept)
		return 1 - at, nil, err
	})
}

// change writes one of the two places of the file's key, synced.
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
