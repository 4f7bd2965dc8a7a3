package keyring

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/seal"
)

// Name is the file in a store's directory that contains the encryption keys of the runs. The number of
// bytes of each field is in parentheses.
//
//	magic(8) | version(4) | id(16) | mode(1)
//	only in an encrypted directory, two copies of the file's own key: sealed(60) | CRC-32C(4)
//	from slotsAt on, one slot for each run: state(1) | at(8) | secret(60) | CRC-32C(4) | 0...
//
// In a directory without encryption a secret is the key, followed by 28 zero bytes. In an encrypted
// directory it is the key encrypted with the file's own key. In a destroyed slot it is all zeros.
const Name = datadir.RunKeysName

const (
	magic   = "PAWLKEYS"
	version = 1

	idAt     = 12
	modeAt   = 28
	wrapsAt  = 64
	wrapSize = 64
	slotsAt  = 512

	// slotBytes divides the size of a disk sector, so that no slot crosses a sector boundary.
	slotBytes  = 128
	secretAt   = 9
	secretSize = seal.KeySize + sealing
	slotCRCAt  = secretAt + secretSize

	// sealing is the number of bytes that encryption adds to a text: a nonce and a tag.
	sealing = 12 + 16

	modePlain  = 1
	modeSealed = 2

	slotKey       = 1
	slotDestroyed = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is the first page of the file of run keys.
type header struct {
	id     [16]byte
	sealed bool
	// wraps are two places for the key that encrypts the slots of this file. Each place is empty, or
	// contains this key encrypted with a master key.
	wraps [2][]byte
}

func newHeader(sealed bool) (header, error) {
	h := header{sealed: sealed}
	_, err := rand.Read(h.id[:])
	return h, err
}

func (h *header) encode() []byte {
	b := make([]byte, slotsAt)
	copy(b, magic)
	binary.BigEndian.PutUint32(b[8:], version)
	copy(b[idAt:], h.id[:])
	b[modeAt] = modePlain
	if h.sealed {
		b[modeAt] = modeSealed
	}
	for i, wrap := range h.wraps {
		copy(b[wrapsAt+i*wrapSize:], encodeWrap(wrap))
	}
	return b
}

// encodeWrap returns the bytes of one of the two header places that contain the file's own key. wrap is this key,
// encrypted with a master key. If wrap is nil, the place is empty.
func encodeWrap(wrap []byte) []byte {
	b := make([]byte, wrapSize)
	if len(wrap) > 0 {
		copy(b, wrap)
		binary.BigEndian.PutUint32(b[secretSize:], crc32.Checksum(wrap, castagnoli))
	}
	return b
}

// readHeader reads the header of a file of keys.
func readHeader(file io.ReaderAt) (header, error) {
	b := make([]byte, slotsAt)
	n, err := file.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return header{}, err
	}
	return decodeHeader(b[:n])
}

// decodeHeader decodes the header of a file of run keys. A fault is a *[layout.Damage].
func decodeHeader(b []byte) (h header, err error) {
	if len(b) < slotsAt || string(b[:len(magic)]) != magic {
		return h, layout.NewDamage(Name, "it does not begin as a file of keys")
	}
	if v := binary.BigEndian.Uint32(b[8:]); v != version {
		return h, layout.NewDamage(Name, "it has version %d, this program reads %d", v, version)
	}
	copy(h.id[:], b[idAt:])
	if mode := b[modeAt]; mode != modePlain && mode != modeSealed {
		return h, layout.NewDamage(Name, "it has the mode %d", mode)
	}
	h.sealed = b[modeAt] == modeSealed
	for i := range h.wraps {
		slot := b[wrapsAt+i*wrapSize:][:wrapSize]
		wrap := slot[:secretSize]
		if crc32.Checksum(wrap, castagnoli) == binary.BigEndian.Uint32(slot[secretSize:]) {
			h.wraps[i] = bytes.Clone(wrap)
		}
	}
	return h, nil
}

// unwrap decrypts the file's own key, which encrypts the slots of the file. It tries both places in the header, and
// returns the key and the place that the master key opens. If the master key opens neither place, the error is a
// *[datadir.KeyError].
func (h *header) unwrap(master []byte) (key []byte, place int, err error) {
	for i, wrap := range h.wraps {
		if wrap == nil {
			continue
		}
		if key, err := unseal(masterOf(master), wrap); err == nil {
			return key, i, nil
		}
	}
	return nil, 0, &datadir.KeyError{Reason: datadir.KeyWrong, Detail: Name + " is under another key, or its header is damaged"}
}

// masterOf derives a key from a directory's master key. The derived key encrypts the file's own key.
func masterOf(master []byte) []byte {
	mac := hmac.New(sha256.New, master)
	mac.Write([]byte("pawl run keys"))
	return mac.Sum(nil)
}

func sealedUnder(key, plain []byte) ([]byte, error) {
	aead, err := gcm(key)
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nil, plain, nil), nil //nolint:gosec // the nonce is random, gcm says
}

func unseal(key, sealed []byte) ([]byte, error) {
	aead, err := gcm(key)
	if err != nil {
		return nil, err
	}
	return aead.Open(nil, nil, sealed, nil)
}

// gcm returns a cipher that puts a random nonce before the encrypted bytes.
func gcm(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// encodeSlot returns the bytes of a slot for one run's key as they are stored in the file.
func encodeSlot(state byte, at int64, secret []byte) []byte {
	b := make([]byte, slotBytes)
	b[0] = state
	binary.BigEndian.PutUint64(b[1:], uint64(at))
	copy(b[secretAt:], secret)
	binary.BigEndian.PutUint32(b[slotCRCAt:], crc32.Checksum(b[:slotCRCAt], castagnoli))
	return b
}

// readSlot decodes the bytes of a slot: the state of the key, the time of its destruction and its secret. ok is false
// if the bytes are not a valid slot.
func readSlot(b []byte) (state byte, at int64, secret []byte, ok bool) {
	if binary.BigEndian.Uint32(b[slotCRCAt:]) != crc32.Checksum(b[:slotCRCAt], castagnoli) {
		return 0, 0, nil, false
	}
	return b[0], int64(binary.BigEndian.Uint64(b[1:])), b[secretAt:slotCRCAt], b[0] == slotKey || b[0] == slotDestroyed
}

func slotPlace(slot uint64) int64 { return slotsAt + int64(slot-1)*slotBytes }
