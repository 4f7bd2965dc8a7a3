package keyring

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/pawl-dev/pawl/internal/store/inspect"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/seal"
)

// grow is how many keys are made, and synced, at once.
const grow = 64

// Room is what growing takes of the disk, bytes.
const Room = grow*slotBytes + slotsAt

// keptKeys bounds the keys that are remembered as they are used.
const keptKeys = 4096

// Ring is the open file of keys of one store. Safe for concurrent use.
type Ring struct {
	dir    string
	master []byte
	// step is told before each write and each sync, and may fail it: for tests of crashes.
	step func(what string) error

	mu   sync.RWMutex
	file *os.File
	head header
	// fileKey seals the slots of an encrypted directory.
	fileKey []byte
	// slots are how many the file has; the last fresh of them are nobody's yet.
	slots, fresh uint64
	// spare were given back: nothing was stored under them.
	spare []uint64
	kept  map[uint64]*seal.Key
	// doomed are slots whose keys are given to nobody any more.
	doomed map[uint64]bool
}

// Open opens the file of a directory if it is there. master is the key of an encrypted
// directory. Errors: *[layout.Damage]; *[inspect.KeyError] where the file is under another
// key, or under none.
func Open(dir string, master []byte, step func(what string) error) (*Ring, error) {
	if step == nil {
		step = func(string) error { return nil }
	}
	r := &Ring{dir: dir, master: master, step: step, kept: map[uint64]*seal.Key{}, doomed: map[uint64]bool{}}
	file, err := os.OpenFile(filepath.Join(dir, Name), os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	if err := r.read(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return r, nil
}

func (r *Ring) read(file *os.File) error {
	h, err := readHeader(file)
	if err != nil {
		return err
	}
	if err := r.unlock(&h); err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	// What a crash left of the keys that were being made was given to nobody.
	r.file, r.head, r.slots = file, h, uint64(info.Size()-slotsAt+slotBytes-1)/slotBytes
	return nil
}

// unlock finds the file's key.
func (r *Ring) unlock(h *header) error {
	switch {
	case h.sealed && len(r.master) == 0:
		return &inspect.KeyError{Reason: inspect.KeyMissing, Detail: Name + " is encrypted: give the key of the directory"}
	case !h.sealed && len(r.master) > 0:
		return &inspect.KeyError{Reason: inspect.KeyUnexpected, Detail: Name + " is not encrypted, and the directory is"}
	case !h.sealed:
		return nil
	}
	key, _, err := h.unwrap(r.master)
	r.fileKey = key
	return err
}

// ID names the file; false: there is none.
func (r *Ring) ID() (id [16]byte, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.head.id, r.file != nil
}

// Begin makes the file, synced, unless it is there.
func (r *Ring) Begin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil {
		return nil
	}
	h, err := newHeader(len(r.master) > 0)
	if err != nil {
		return err
	}
	if h.sealed {
		r.fileKey = make([]byte, seal.KeySize)
		if _, err := rand.Read(r.fileKey); err != nil {
			return err
		}
		if h.wraps[0], err = sealedUnder(masterOf(r.master), r.fileKey); err != nil {
			return err
		}
	}
	return r.create(h)
}

// create writes the header under another name first: the file is there with a header, or
// it is not there.
func (r *Ring) create(h header) error {
	path := filepath.Join(r.dir, Name)
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err = r.written(file, h.encode(), 0, "header"); err == nil {
		err = errors.Join(r.step("name"), os.Rename(path+".new", path), inspect.SyncDir(r.dir))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make %s: %w", Name, err), file.Close())
	}
	r.file, r.head = file, h
	return nil
}

// written writes and syncs.
func (r *Ring) written(file *os.File, b []byte, at int64, what string) error {
	if err := r.step(what); err != nil {
		return err
	}
	if _, err := file.WriteAt(b, at); err != nil {
		return err
	}
	if err := r.step(what + " sync"); err != nil {
		return err
	}
	return file.Sync()
}

// Take gives out a key that nobody had, synced. The file must have been begun.
func (r *Ring) Take() (*seal.Key, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.spare); n > 0 {
		slot := r.spare[n-1]
		r.spare = r.spare[:n-1]
		return r.load(slot)
	}
	if r.fresh == 0 {
		if err := r.make(); err != nil {
			return nil, fmt.Errorf("make keys of runs: %w", err)
		}
	}
	slot := r.slots - r.fresh + 1
	key, err := r.load(slot)
	if err != nil {
		return nil, err
	}
	r.fresh--
	r.keep(key)
	return key, nil
}

// Return takes back a key under which nothing was stored.
func (r *Ring) Return(slot uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spare = append(r.spare, slot)
}

// make adds keys at the end of the file.
func (r *Ring) make() error {
	if r.file == nil {
		return layout.Damaged(Name, "it was not begun")
	}
	b := make([]byte, 0, grow*slotBytes)
	for range grow {
		secret := make([]byte, seal.KeySize, secretSize)
		if _, err := rand.Read(secret); err != nil {
			return err
		}
		if r.fileKey != nil {
			var err error
			if secret, err = sealedUnder(r.fileKey, secret); err != nil {
				return err
			}
		}
		b = append(b, encodeSlot(slotKey, 0, secret)...)
	}
	if err := r.written(r.file, b, slotPlace(r.slots+1), "keys"); err != nil {
		return err
	}
	r.slots, r.fresh = r.slots+grow, grow
	return nil
}

// Key is that of a slot; [seal.ErrDestroyed], *[layout.Damage].
func (r *Ring) Key(slot uint64) (*seal.Key, error) {
	r.mu.RLock()
	key, doomed := r.kept[slot], r.doomed[slot]
	r.mu.RUnlock()
	if doomed {
		return nil, seal.ErrDestroyed
	}
	if key != nil {
		return key, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.doomed[slot] {
		return nil, seal.ErrDestroyed
	}
	key, err := r.load(slot)
	if err == nil {
		r.keep(key)
	}
	return key, err
}

// Last is the key of a slot for who removes what it hides; after [Ring.Doom], too.
func (r *Ring) Last(slot uint64) (*seal.Key, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.load(slot)
}

// keep remembers a key; when there are many, others are forgotten first.
func (r *Ring) keep(key *seal.Key) {
	if len(r.kept) >= keptKeys {
		clear(r.kept)
	}
	r.kept[key.Slot] = key
}

// load reads a slot.
func (r *Ring) load(slot uint64) (*seal.Key, error) {
	if r.file == nil || slot == 0 || slot > r.slots {
		return nil, layout.Damaged(Name, "key %d of a run is missing: it has %d", slot, r.slots)
	}
	b := make([]byte, slotBytes)
	if _, err := r.file.ReadAt(b, slotPlace(slot)); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	state, _, secret, ok := readSlot(b)
	if !ok {
		return nil, layout.Damaged(Name, "key %d is not as it was written", slot)
	}
	if state == slotDestroyed {
		return nil, seal.ErrDestroyed
	}
	if r.fileKey == nil {
		return seal.NewKey(slot, [seal.KeySize]byte(secret))
	}
	plain, err := unsealed(r.fileKey, secret)
	if err != nil {
		return nil, layout.Damaged(Name, "key %d does not open under the key of the file", slot)
	}
	return seal.NewKey(slot, [seal.KeySize]byte(plain))
}

// Doom gives the key of a slot to nobody from now on.
func (r *Ring) Doom(slot uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doomed[slot] = true
	delete(r.kept, slot)
}

// Destroy writes over the key of a slot, synced; at is when, Unix nanoseconds. A slot that is
// destroyed stays as it is. One that the file does not have is none.
func (r *Ring) Destroy(slot uint64, at int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doomed[slot] = true
	delete(r.kept, slot)
	if _, err := r.load(slot); errors.Is(err, seal.ErrDestroyed) || slot > r.slots {
		return nil
	}
	if err := r.written(r.file, encodeSlot(slotDestroyed, at, nil), slotPlace(slot), "destroy"); err != nil {
		return fmt.Errorf("destroy key %d: %w", slot, err)
	}
	// The disk says so now; nobody needs the memory.
	delete(r.doomed, slot)
	return nil
}

// DestroyedAt is when a slot was destroyed, Unix nanoseconds; 0 = it was not.
func (r *Ring) DestroyedAt(slot uint64) int64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.file == nil || slot == 0 || slot > r.slots {
		return 0
	}
	b := make([]byte, slotBytes)
	if _, err := r.file.ReadAt(b, slotPlace(slot)); err != nil {
		return 0
	}
	if state, at, _, ok := readSlot(b); ok && state == slotDestroyed {
		return at
	}
	return 0
}

// Slots is how many keys were made.
func (r *Ring) Slots() uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.slots
}

// Close closes the file.
func (r *Ring) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	file := r.file
	r.file = nil
	return file.Close()
}
