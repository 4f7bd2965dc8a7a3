package datadir

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"

	"github.com/pawl-dev/pawl/internal/store/layout"
)

// logFile is one of Badger's logs, with the data key that its header names. In a record, only the key
// and the value are encrypted. The checksum is computed from the encrypted bytes.
type logFile struct {
	name string
	data []byte
	// block is nil for a log that is not encrypted.
	block cipher.Block
}

// keyID returns the id of the data key that a log's header names. It returns 0 if the header names
// none.
func keyID(data []byte) uint64 {
	if len(data) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(data)
}

// openLog finds the data key of a log, and uses the first record to check that the key is right. The
// checksums cannot show this, because they are also correct with a wrong key. A wrong key decrypts the
// records into random bytes.
func (n *inspection) openLog(name string, data []byte) (*logFile, error) {
	f := &logFile{name: name, data: data}
	id := keyID(data)
	if id == 0 {
		if n.keys.state == registryOpen && len(bytes.Trim(data, "\x00")) > 0 {
			return nil, layout.NewDamage(name, "its header names no data key, and the store is encrypted")
		}
		return f, nil
	}
	var err error
	if f.block, err = aes.NewCipher(n.keys.keys[id]); err != nil || len(data) < LogHeader {
		return nil, layout.NewDamage(name, "its header is not whole: %v", err)
	}
	if r, whole := recordAt(data, LogHeader); whole && !f.isOurs(r) {
		return nil, layout.NewDamage(name, "its first record does not open with the data key %d: the header is damaged", id)
	}
	return f, nil
}

// isOurs reports whether a record's decrypted key looks like a key of a store. The record's version must be below
// 1<<48, as all numbers of commit groups are. Bytes that were decrypted with a wrong key almost never have a version as
// small as this.
func (f *logFile) isOurs(r logRecord) bool {
	r.value = nil
	f.decrypt(&r)
	return len(r.key) > 8 && (r.key[0] == layout.KindFormat || layout.Kinds[r.key[0]].Row != "") && r.version() < 1<<48
}

// decrypt decrypts the key and the value of a record into new memory. It does not change the file's
// bytes.
func (f *logFile) decrypt(r *logRecord) {
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
