package keyring

import (
	"errors"
	"io"

	"github.com/pawl-dev/pawl/internal/store/seal"
)

// ErrThere means that the target medium of a copy of run keys already contains keys.
var ErrThere = errors.New("there are keys of runs already")

// CopyToMedium copies the ring, a collection of run keys, to another medium, which must be empty and unused.
// The copy has the same id and the same slots. Its keys are encrypted with the master key master, or
// not encrypted if master is empty. If the ring has no keys, CopyToMedium writes nothing. No key may be taken
// or destroyed during the call. Errors: [ErrThere].
func (r *Ring) CopyToMedium(to Medium, master []byte) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.fileExists {
		return nil
	}
	if _, there, err := to.Size(); there || err != nil {
		return errors.Join(err, onlyIf(there, ErrThere))
	}
	h, key, err := headerOf(master)
	if err != nil {
		return err
	}
	h.id = r.head.id
	if err := to.Create(h.encode()); err != nil {
		return err
	}
	for slot := uint64(1); slot <= r.slots; slot += grow {
		b, err := r.rewrapSlots(slot, min(slot+grow, r.slots+1), key)
		if err == nil {
			err = to.Write("keys", b, slotPlace(slot))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func onlyIf(is bool, err error) error {
	if is {
		return err
	}
	return nil
}

// rewrapSlots returns the bytes of slots with their run keys encrypted with key. If key is nil, they are not
// encrypted. Destroyed and damaged slots are copied unchanged.
func (r *Ring) rewrapSlots(from, end uint64, key []byte) (b []byte, err error) {
	for slot := from; slot < end && err == nil; slot++ {
		raw := make([]byte, slotBytes)
		if _, err := r.medium.ReadAt(raw, slotPlace(slot)); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		state, _, secret, ok := readSlot(raw)
		if ok && state == slotKey {
			raw, err = r.underAnother(secret, key)
		}
		b = append(b, raw...)
	}
	return b, err
}

// underAnother encrypts the run key of a slot with another file key. It decrypts secret with the ring's own key and
// returns the bytes of the new slot. If secret cannot be decrypted, it returns an invalid slot.
func (r *Ring) underAnother(secret, key []byte) ([]byte, error) {
	if r.fileKey == nil {
		secret = secret[:seal.KeySize]
	} else {
		plain, err := unseal(r.fileKey, secret)
		if err != nil {
			return make([]byte, slotBytes), nil //nolint:nilerr // it stays damaged
		}
		secret = plain
	}
	return newSlot(secret, key)
}
