package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// KeySize is that of a run's key, bytes.
const KeySize = 32

// Overhead is what sealing adds: a nonce before the hidden bytes, a tag behind them.
const Overhead = nonceSize + tagSize

const (
	nonceSize = 12
	tagSize   = 16
)

// ErrDestroyed: the key was destroyed, and with it everything that it hid.
var ErrDestroyed = errors.New("the run's key was destroyed")

// ErrForged: the bytes were not sealed with this key, or not as they are.
var ErrForged = errors.New("sealed bytes do not open under their key")

// Key hides the values of one run. Safe for concurrent use.
type Key struct {
	// Slot is its place in the file of keys, from 1.
	Slot  uint64
	aead  cipher.AEAD
	nonce [KeySize]byte
}

// NewKey makes the key of a slot out of its secret: one key hides, another one makes nonces.
func NewKey(slot uint64, secret [KeySize]byte) (*Key, error) {
	hides := derived(secret[:], "pawl run values")
	block, err := aes.NewCipher(hides[:])
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &Key{Slot: slot, aead: aead, nonce: derived(secret[:], "pawl run nonces")}, err
}

func derived(secret []byte, purpose string) (out [KeySize]byte) {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(purpose))
	mac.Sum(out[:0])
	return out
}

// Seal appends plain, hidden, to b; also is proven with it and stays readable. The nonce is
// a function of both: two entries that a crash or a restore puts in the same place have two.
func (k *Key) Seal(b, plain, also []byte) []byte {
	mac := hmac.New(sha256.New, k.nonce[:])
	var size [8]byte
	binary.LittleEndian.PutUint64(size[:], uint64(len(also)))
	mac.Write(size[:])
	mac.Write(also)
	mac.Write(plain)
	var sum [sha256.Size]byte
	nonce := mac.Sum(sum[:0])[:nonceSize]
	return k.aead.Seal(append(b, nonce...), nonce, plain, also)
}

// Open is the inverse of [Key.Seal]; [ErrForged].
func (k *Key) Open(sealed, also []byte) ([]byte, error) {
	if len(sealed) < Overhead {
		return nil, fmt.Errorf("%w: %d bytes", ErrForged, len(sealed))
	}
	plain, err := k.aead.Open(nil, sealed[:nonceSize], sealed[nonceSize:], also)
	if err != nil {
		return nil, ErrForged
	}
	return plain, nil
}
