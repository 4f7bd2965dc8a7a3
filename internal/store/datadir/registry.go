package datadir

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/y"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/store/layout"
)

// The reasons of a [KeyError].
const (
	KeyMissing    = "ENCRYPTION_KEY_MISSING"
	KeyWrong      = "ENCRYPTION_KEY_WRONG"
	KeyUnexpected = "ENCRYPTION_KEY_UNEXPECTED"
)

// KeyError means that a directory cannot be opened with the given encryption key. The data of the directory is
// unchanged.
type KeyError struct {
	// Reason is KeyMissing, KeyWrong or KeyUnexpected. Detail says how the operator can correct the
	// fault.
	Reason, Detail string
}

func (e *KeyError) Error() string { return e.Reason + ": " + e.Detail }

// RegistryName is the name of Badger's file of data keys, which are encrypted with the master key:
//
//	vector(16) | sanity text(12), encrypted with the master key | keys
//
// Each key is length(4) | CRC-32C(4) | pb.DataKey. In a store without encryption the file has no keys,
// and the sanity text is not encrypted.
const (
	RegistryName  = badger.KeyRegistryFileName
	registryBytes = 16 + 12
)

var registryText = []byte("Hello Badger")

// registryState is the result of reading the file of data keys.
type registryState int

const (
	// registryAbsent means that the file does not exist, or that a crash interrupted its creation.
	registryAbsent registryState = iota
	// registryPlain means that the store is not encrypted.
	registryPlain
	// registryLocked means that the file is encrypted but the master key is wrong or missing.
	registryLocked
	// registryOpen means that the keys were read.
	registryOpen
)

// registry is the content of Badger's file of data keys.
type registry struct {
	state registryState
	// fileExists means that the file exists.
	fileExists bool
	keys       map[uint64][]byte
	// end is the offset behind the complete keys. size is the size of the file. A crash may leave a part
	// of the newest key between them, with which no data was encrypted.
	end, size int64
}

// readRegistry reads the file of data keys. master decrypts the keys. It is nil if the caller has no
// master key.
func readRegistry(dir string, master []byte) (*registry, error) {
	r := &registry{keys: map[uint64][]byte{}}
	data, err := os.ReadFile(filepath.Join(dir, RegistryName))
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	r.fileExists = true
	if r.size = int64(len(data)); len(data) < registryBytes {
		return r, nil
	}
	vector, text := data[:16], data[16:registryBytes]
	r.state = registryLocked
	if bytes.Equal(text, registryText) {
		r.state = registryPlain
		return r, nil
	}
	if len(master) == 0 {
		return r, nil
	}
	if text, err = y.XORBlockAllocate(text, master, vector); err != nil {
		return nil, fmt.Errorf("encryption key: %w", err)
	}
	if bytes.Equal(text, registryText) {
		r.state = registryOpen
		err = r.readKeys(data, master)
	}
	return r, err
}

// readKeys reads the data keys up to the first incomplete one.
func (r *registry) readKeys(data, master []byte) error {
	at := registryBytes
	for r.end = int64(at); at+8 <= len(data); r.end = int64(at) {
		length, sum := int(binary.BigEndian.Uint32(data[at:])), binary.BigEndian.Uint32(data[at+4:])
		if length == 0 || length > len(data)-at-8 {
			return nil
		}
		body := data[at+8 : at+8+length]
		var key pb.DataKey
		if crc32.Checksum(body, castagnoli) != sum || proto.Unmarshal(body, &key) != nil || len(key.Iv) != 16 {
			return nil
		}
		plain, err := y.XORBlockAllocate(key.Data, master, key.Iv)
		if err != nil {
			return fmt.Errorf("encryption key: %w", err)
		}
		r.keys[key.KeyId] = plain
		at += 8 + length
	}
	return nil
}

// checkFiles returns an error if the file of data keys does not fit the files of the store. named maps the
// id of each used data key to the name of a file that uses it. keyed reports whether the caller has a
// master key. bare reports whether the store is empty.
func (r *registry) checkFiles(named map[uint64]string, keyed, bare bool) error {
	switch {
	case len(named) == 0:
		return r.judgePlain(keyed, bare)
	case r.state == registryAbsent:
		return layout.NewDamage(RegistryName, "it is missing or cut, and files such as %s are encrypted under keys in it: without a copy of it they cannot be read", oneOf(named))
	case r.state == registryPlain:
		return layout.NewDamage(oneOf(named), "its header names an encryption key, which no store without encryption has")
	case r.state == registryLocked:
		return lockedError(keyed)
	}
	for id, name := range named {
		if r.keys[id] == nil {
			return layout.NewDamage(name, "its header names the data key %d, which %s does not have: one of the two is damaged", id, RegistryName)
		}
	}
	return nil
}

// judgePlain returns an error if the file of data keys does not fit a store whose files use no data
// key.
func (r *registry) judgePlain(keyed, bare bool) error {
	switch {
	case keyed && (r.state == registryPlain || r.state == registryAbsent && !bare):
		return &KeyError{Reason: KeyUnexpected, Detail: "the directory is not encrypted, and an encryption key was given: start without one, or move its content to a new, encrypted directory (docs/operations/encryption-and-erasure.md)"}
	case r.state == registryLocked && (keyed || r.size > registryBytes):
		return lockedError(keyed)
	}
	return nil
}

func lockedError(keyed bool) error {
	if keyed {
		return &KeyError{Reason: KeyWrong, Detail: "the encryption key does not open " + RegistryName + ": it is another one, or that file is damaged"}
	}
	return &KeyError{Reason: KeyMissing, Detail: "the directory is encrypted: give the file with its key (--encryption-key-file)"}
}

func oneOf(named map[uint64]string) string {
	least := ""
	for _, name := range named {
		if least == "" || name < least {
			least = name
		}
	}
	return least
}

// removeIncompleteKey removes an incomplete key that a crash has left at the end of the file of data keys, because
// Badger refuses to open such a file.
func (r *registry) removeIncompleteKey(dir string) error {
	if r.state != registryOpen || r.end == r.size {
		return nil
	}
	file, err := os.OpenFile(filepath.Join(dir, RegistryName), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Truncate(r.end), file.Sync(), file.Close())
}

// isEmpty reports whether the file of data keys contains no key, because it is incomplete, or because it ends
// after its header, which the master key does not open. Then it can be removed, because Badger creates it
// again.
func (r *registry) isEmpty() bool {
	return r.fileExists && r.state == registryAbsent || r.state == registryLocked && r.size == registryBytes
}
