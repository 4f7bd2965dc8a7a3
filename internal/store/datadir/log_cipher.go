package datadir

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"

	"github.com/pawl-dev/pawl/internal/store/layout"
)

// logFile is one of Badger's logs, with the data key that its header names. Of a record
// key and value are encrypted, lengths and checksum, which is over what is on the disk,
// are not.
type logFile struct {
	name string
	data []byte
	// block is nil for a log that is not encrypted.
	block cipher.Block
}

// keyID is the data key that a log's header names, 0 = none.
func keyID(data []byte) uint64 {
	if len(data) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(data)
}

// openLog finds the key of a log, and proves by the first record that it is the key: under
// another key or vector every checksum holds, and what is read is noise.
func (n *inspection) openLog(name string, data []byte) (*logFile, error) {
	f := &logFile{name: name, data: data}
	id := keyID(data)
	if id == 0 {
		if n.keys.state == registryOpen && len(bytes.Trim(data, "\x00")) > 0 {
			return nil, layout.Damaged(name, "its header names no data key, and the store is encrypted")
		}
		return f, nil
	}
	var err error
	if f.block, err = aes.NewCipher(n.keys.keys[id]); err != nil || len(data) < LogHeader {
		return nil, layout.Damaged(name, "its header is not whole: %v", err)
	}
	if r, whole := recordAt(data, LogHeader); whole && !f.isOurs(r) {
		return nil, layout.Damaged(name, "its first record does not open with the data key %d: the header is damaged", id)
	}
	return f, nil
}

// isOurs: the key is one that a store writes. Versions count groups and stay far below
// 1<<48; noise does not.
func (f *logFile) isOurs(r logRecord) bool {
	r.value = nil
	f.reveal(&r)
	return len(r.key) > 8 && (r.key[0] == layout.KindFormat || layout.Kinds[r.key[0]].Row != "") && r.version() < 1<<48
}

// reveal decrypts key and value of a record; the file's bytes stay as they are.
func (f *logFile) reveal(r *logRecord) {
	if f.block == nil || len(r.key) == 0 {
		return
	}
	var vector [aes.BlockSize]byte
	copy(vector[:12], f.data[8:LogHeader])
	binary.BigEndian.PutUint32(vector[12:], uint32(r.at))
	stream := cipher.NewCTR(f.block, vector[:])
	plain := make([]byte, len(r.key)+len(r.value))
	stream.XORKeyStream(plain, r.key)
	stream.XORKeyStream(plain[len(r.key):], r.value)
	r.key, r.value = plain[:len(r.key)], plain[len(r.key):]
}
