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

// grow is the number of run keys that are created and synced at once.
const grow = 64

// GrowBytes is the maximum disk space that is needed to create grow keys, in bytes.
const GrowBytes = grow*slotBytes + slotsAt

// keptKeys is the maximum number of decrypted run keys that a [Ring] caches in memory.
const keptKeys = 4096

// Ring is the open file with the run keys of one store. Safe for concurrent use.
type Ring struct {
	medium Medium
	master []byte

	mu sync.RWMutex
	// fileExists reports whether the file of keys exists. closed reports whether the ring was closed.
	fileExists, closed bool
	head               header
	// fileKey is the key with which the slots of an encrypted directory are encrypted. Otherwise it is
	// nil.
	fileKey []byte
	// slots is the number of slots (places for one run key) in the file. fresh is the number of unused
	// slots at the end of the file.
	slots, fresh uint64
	// spare are slots of keys that were taken for a run which then did not begin. The next runs use
	// them.
	spare  []uint64
	cached map[uint64]*seal.Key
	// doomed are the slots of the key file whose keys the ring no longer returns to readers, because
	// their runs are erased.
	doomed map[uint64]bool
}

// Open opens the file of run keys of a directory if it exists. master is the master key of an encrypted
// directory. Tests pass step, which is called before each write, each sync and the rename of a new file, and
// can make it fail. Errors: *[layout.Damage]; *[datadir.KeyError] if the file is encrypted with another key, or
// not encrypted.
func Open(dir string, master []byte, step func(what string) error) (*Ring, error) {
	medium, err := openFile(dir, step)
	if err != nil {
		return nil, err
	}
	return On(medium, master)
}

// On opens a ring, which is the collection of the run keys that a medium stores. The ring then owns the
// medium and closes it. After an error, the medium is closed. The errors are those of [Open].
func On(medium Medium, master []byte) (*Ring, error) {
	r := &Ring{medium: medium, master: master, cached: map[uint64]*seal.Key{}, doomed: map[uint64]bool{}}
	if err := r.read(); err != nil {
		return nil, errors.Join(err, medium.Close())
	}
	return r, nil
}

// read reads the header of the medium and decrypts its key. If the medium is empty, the ring is empty, too.
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
	// A crash may leave incomplete new keys at the end of the file. They count as slots, but no run
	// uses them.
	r.fileExists, r.head, r.slots = true, h, uint64(size-slotsAt+slotBytes-1)/slotBytes
	return nil
}

// unlock decrypts the key with which the slots of the file are encrypted, if the directory is encrypted. It
// returns an error if the ring has no master key or a wrong one, or if it has one and the file is not
// encrypted.
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

// ID returns the id of the file of run keys. It returns false if the file does not exist.
func (r *Ring) ID() (id [16]byte, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.head.id, r.fileExists
}

// Begin creates the file of run keys and syncs it. If the file exists, Begin does nothing.
func (r *Ring) Begin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fileExists {
		return nil
	}
	h, key, err := headerOf(r.master)
	if err != nil {
		return err
	}
	if err := r.medium.Create(h.encode()); err != nil {
		return fmt.Errorf("make %s: %w", Name, err)
	}
	r.fileExists, r.head, r.fileKey = true, h, key
	return nil
}

// headerOf returns the header of a new file of run keys, and the key that encrypts its slots. The key
// is nil if master is empty.
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

// Take returns the key for a new run. The key is unused and already synced. The file of run keys must
// exist.
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
	r.cacheKey(key)
	return key, nil
}

// Return gives the key in a slot (a place in the key file) back to the ring, so that another run can
// use it. No value may have been stored with the key.
func (r *Ring) Return(slot uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spare = append(r.spare, slot)
}

// make creates new keys at the end of the file of run keys.
func (r *Ring) make() error {
	if !r.fileExists {
		return layout.NewDamage(Name, "it was not begun")
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

// newSlot returns the bytes of a slot (a place in the key file) that contains a run's key. If key is
// not nil, the run's key is encrypted with it.
func newSlot(secret, key []byte) (_ []byte, err error) {
	if key != nil {
		if secret, err = sealedUnder(key, secret); err != nil {
			return nil, err
		}
	}
	return encodeSlot(slotKey, 0, secret), nil
}

// Key returns the run key in a slot of the key file. Errors: [seal.ErrDestroyed] if the key was
// destroyed; *[layout.Damage] if the slot is missing or its bytes have changed.
func (r *Ring) Key(slot uint64) (*seal.Key, error) {
	r.mu.RLock()
	key, doomed := r.cached[slot], r.doomed[slot]
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
		r.cacheKey(key)
	}
	return key, err
}

// LastKey returns the run key in a slot of the key file even after [Ring.Doom]. Only the code that removes
// the rows of an erased run uses it, to decrypt them.
func (r *Ring) LastKey(slot uint64) (*seal.Key, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.load(slot)
}

// cacheKey caches a key in memory. If the cache is full, cacheKey empties it first.
func (r *Ring) cacheKey(key *seal.Key) {
	if len(r.cached) >= keptKeys {
		clear(r.cached)
	}
	r.cached[key.Slot] = key
}

// load reads and decrypts the run key in a slot of the key file.
func (r *Ring) load(slot uint64) (*seal.Key, error) {
	if !r.fileExists || slot == 0 || slot > r.slots {
		return nil, layout.NewDamage(Name, "key %d of a run is missing: it has %d", slot, r.slots)
	}
	b := make([]byte, slotBytes)
	if _, err := r.medium.ReadAt(b, slotPlace(slot)); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	state, _, secret, ok := readSlot(b)
	if !ok {
		return nil, layout.NewDamage(Name, "key %d is not as it was written", slot)
	}
	if state == slotDestroyed {
		return nil, seal.ErrDestroyed
	}
	if r.fileKey == nil {
		return seal.NewKey(slot, [seal.KeySize]byte(secret))
	}
	plain, err := unseal(r.fileKey, secret)
	if err != nil {
		return nil, layout.NewDamage(Name, "key %d does not open under the key of the file", slot)
	}
	return seal.NewKey(slot, [seal.KeySize]byte(plain))
}

// Doom makes [Ring.Key] refuse the run key in a slot of the key file. The key itself still exists.
func (r *Ring) Doom(slot uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doomed[slot] = true
	delete(r.cached, slot)
}

// Destroy overwrites the run key in a slot of the key file and syncs the change. at is the current time
// in Unix nanoseconds. If the key was destroyed before, or if the file does not have the slot, Destroy
// does nothing.
func (r *Ring) Destroy(slot uint64, at int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doomed[slot] = true
	delete(r.cached, slot)
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

// DestroyedAt returns the time at which the run key in a slot of the key file was destroyed, in Unix
// nanoseconds. It returns 0 if the key was not destroyed, or if the slot cannot be read.
func (r *Ring) DestroyedAt(slot uint64) int64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.fileExists || slot == 0 || slot > r.slots {
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

// Slots returns the number of run keys that were created, used or not.
func (r *Ring) Slots() uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.slots
}

// Close closes the medium. A second call does nothing.
func (r *Ring) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.fileExists, r.closed = false, true
	return r.medium.Close()
}
