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

// KeySize is the size of a run's key in bytes.
const KeySize = 32

// Overhead is the number of bytes that encryption adds: a nonce before the encrypted bytes and a tag
// after them.
const Overhead = nonceSize + tagSize

const (
	nonceSize = 12
	tagSize   = 16
)

// ErrDestroyed means that the key was destroyed. All values that were encrypted with it are lost.
var ErrDestroyed = errors.New("the run's key was destroyed")

// ErrForged means that the bytes were not encrypted with this key or were changed afterwards.
var ErrForged = errors.New("sealed bytes do not open under their key")

// Key encrypts the values of one run. Safe for concurrent use.
type Key struct {
	// Slot is the number of the key in the file of run keys, counted from 1.
	Slot  uint64
	aead  cipher.AEAD
	nonce [KeySize]byte
}

// NewKey derives the key of a slot from its secret: one key for the encryption and another one for the
// nonces.
func NewKey(slot uint64, secret [KeySize]byte) (*Key, error) {
	hides := deriveKey(secret[:], "pawl run values")
	block, err := aes.NewCipher(hides[:])
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &Key{Slot: slot, aead: aead, nonce: deriveKey(secret[:], "pawl run nonces")}, err
}

func deriveKey(secret []byte, purpose string) (out [KeySize]byte) {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(purpose))
	mac.Sum(out[:0])
	return out
}

// Seal appends the encrypted bytes of plain to b. also is authenticated, but not encrypted and not
// stored. The nonce depends on plain and also, so that two different entries that a crash or a restore
// puts in the same place have different nonces.
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

// Open decrypts bytes that [Key.Seal] has encrypted. Errors: [ErrForged].
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
