package keyring

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/seal"
)

// grow is the number of keys that are created and synced at once.
const grow = 64

// GrowBytes is the maximum disk space that the creation of grow keys takes, in bytes.
const GrowBytes = grow*slotBytes + slotsAt

// keptKeys is the maximum number of keys that the ring caches in memory.
const keptKeys = 4096

// Ring is the open file of keys of one store. Safe for concurrent use.
type Ring struct {
	medium Medium
	master []byte

	mu sync.RWMutex
	// there reports whether the file exists and is open.
	there, closed bool
	head          header
	// fileKey seals the slots of an encrypted directory.
	fileKey []byte
	// slots is the number of slots in the file. fresh is the number of unused slots at the end of the
	// file.
	slots, fresh uint64
	// spare are slots that were returned because no value was stored with their keys.
	spare []uint64
	kept  map[uint64]*seal.Key
	// doomed are the slots whose keys the ring no longer returns to readers.
	doomed map[uint64]bool
}

// Open opens the file of keys of a directory if it exists. master is the master key of an encrypted
// directory. step is called before each write and each sync. If step returns an error, the write fails;
// tests of crashes use this. Errors: *[layout.Damage]; *[datadir.KeyError] if the file is encrypted
// with another key, or not encrypted.
func Open(dir string, master []byte, step func(what string) error) (*Ring, error) {
	medium, err := openFile(dir, step)
	if err != nil {
		return nil, err
	}
	return On(medium, master)
}

// On opens the ring that is stored in a medium. The ring then owns the medium and closes it. If there
// is an error, On closes the medium before it returns. The errors are those of [Open].
func On(medium Medium, master []byte) (*Ring, error) {
	r := &Ring{medium: medium, master: master, kept: map[uint64]*seal.Key{}, doomed: map[uint64]bool{}}
	if err := r.read(); err != nil {
		return nil, errors.Join(err, medium.Close())
	}
	return r, nil
}

func (r *Ring) read() error {
	size, there, err := r.medium.Size()
	if err != nil || !there {
		return err
	}
	h, err := readHeader(r.medium)
	if err != nil {
		return err
	}
	if err := r.unlock(&h); err != nil {
		return err
	}
	// A crash may leave incomplete new keys at the end. None of them was used.
	r.there, r.head, r.slots = true, h, uint64(size-slotsAt+slotBytes-1)/slotBytes
	return nil
}

// unlock finds the file's key. The slots of an encrypted directory are sealed with this key.
func (r *Ring) unlock(h *header) error {
	switch {
	case h.sealed && len(r.master) == 0:
		return &datadir.KeyError{Reason: datadir.KeyMissing, Detail: Name + " is encrypted: give the key of the directory"}
	case !h.sealed && len(r.master) > 0:
		return &datadir.KeyError{Reason: datadir.KeyUnexpected, Detail: Name + " is not encrypted, and the directory is"}
	case !h.sealed:
		return nil
	}
	key, _, err := h.unwrap(r.master)
	r.fileKey = key
	return err
}

// ID returns the id of the file of keys. It returns false if the file does not exist.
func (r *Ring) ID() (id [16]byte, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.head.id, r.there
}

// Begin creates the file and syncs it. If the file exists, Begin does nothing.
func (r *Ring) Begin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.there {
		return nil
	}
	h, key, err := headerOf(r.master)
	if err != nil {
		return err
	}
	if err := r.medium.Create(h.encode()); err != nil {
		return fmt.Errorf("make %s: %w", Name, err)
	}
	r.there, r.head, r.fileKey = true, h, key
	return nil
}

// headerOf returns the header of a new file, and the key that seals its slots. The key is nil if
// master is empty.
func headerOf(master []byte) (h header, key []byte, err error) {
	if h, err = newHeader(len(master) > 0); err != nil || !h.sealed {
		return h, nil, err
	}
	key = make([]byte, seal.KeySize)
	if _, err := rand.Read(key); err != nil {
		return h, nil, err
	}
	h.wraps[0], err = sealedUnder(masterOf(master), key)
	return h, key, err
}

// Take returns an unused key, which is already synced. The file must exist.
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

// Return returns a key to the ring, so that another run can use it. No value may have been stored with
// the key.
func (r *Ring) Return(slot uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spare = append(r.spare, slot)
}

// make creates keys at the end of the file.
func (r *Ring) make() error {
	if !r.there {
		return layout.Damaged(Name, "it was not begun")
	}
	b := make([]byte, 0, grow*slotBytes)
	for range grow {
		secret := make([]byte, seal.KeySize)
		if _, err := rand.Read(secret); err != nil {
			return err
		}
		slot, err := newSlot(secret, r.fileKey)
		if err != nil {
			return err
		}
		b = append(b, slot...)
	}
	if err := r.medium.Write("keys", b, slotPlace(r.slots+1)); err != nil {
		return err
	}
	r.slots, r.fresh = r.slots+grow, grow
	return nil
}

// newSlot encodes the slot of a run's secret. If key is not nil, the secret is sealed under it.
func newSlot(secret, key []byte) (_ []byte, err error) {
	if key != nil {
		if secret, err = sealedUnder(key, secret); err != nil {
			return nil, err
		}
	}
	return encodeSlot(slotKey, 0, secret), nil
}

// Key returns the key of a slot. If the key was destroyed, the error is [seal.ErrDestroyed]. If the
// slot is missing or changed, it is a *[layout.Damage].
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

// Last returns the key of a slot even after [Ring.Doom]. Only the code that removes the rows that are
// sealed with this key uses it.
func (r *Ring) Last(slot uint64) (*seal.Key, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.load(slot)
}

// keep caches a key. If the cache is full, keep empties it first.
func (r *Ring) keep(key *seal.Key) {
	if len(r.kept) >= keptKeys {
		clear(r.kept)
	}
	r.kept[key.Slot] = key
}

// load reads the key of a slot.
func (r *Ring) load(slot uint64) (*seal.Key, error) {
	if !r.there || slot == 0 || slot > r.slots {
		return nil, layout.Damaged(Name, "key %d of a run is missing: it has %d", slot, r.slots)
	}
	b := make([]byte, slotBytes)
	if _, err := r.medium.ReadAt(b, slotPlace(slot)); err != nil && !errors.Is(err, io.EOF) {
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

// Doom makes [Ring.Key] refuse the key of a slot. The key itself still exists.
func (r *Ring) Doom(slot uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doomed[slot] = true
	delete(r.kept, slot)
}

// Destroy overwrites the key of a slot and syncs. at is the current time in Unix nanoseconds. If the
// slot was destroyed before, or if the file does not have the slot, Destroy does nothing.
func (r *Ring) Destroy(slot uint64, at int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doomed[slot] = true
	delete(r.kept, slot)
	if _, err := r.load(slot); errors.Is(err, seal.ErrDestroyed) || slot > r.slots {
		return nil
	}
	if err := r.medium.Write("destroy", encodeSlot(slotDestroyed, at, nil), slotPlace(slot)); err != nil {
		return fmt.Errorf("destroy key %d: %w", slot, err)
	}
	// The file now records the destruction, so the entry in memory is no longer needed.
	delete(r.doomed, slot)
	return nil
}

// DestroyedAt returns the time at which the key of a slot was destroyed, in Unix nanoseconds. It
// returns 0 if the key was not destroyed.
func (r *Ring) DestroyedAt(slot uint64) int64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.there || slot == 0 || slot > r.slots {
		return 0
	}
	b := make([]byte, slotBytes)
	if _, err := r.medium.ReadAt(b, slotPlace(slot)); err != nil {
		return 0
	}
	if state, at, _, ok := readSlot(b); ok && state == slotDestroyed {
		return at
	}
	return 0
}

// Slots returns the number of keys that were created.
func (r *Ring) Slots() uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.slots
}

// Close closes the medium.
func (r *Ring) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.there, r.closed = false, true
	return r.medium.Close()
}
