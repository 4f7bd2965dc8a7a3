package datadir

import (
	"crypto/aes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/y"
	"github.com/klauspost/compress/snappy"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/store/layout"
)

// tableFile reads one of Badger's tables. The layout of a table is:
//
//	blocks | index | its length(4) | its checksum | the checksum's length(4)
//
// Each block is compressed and followed by its own checksum and the checksum's length. Badger's own
// verification cannot be used: when it opens a damaged table, it either leaves the table out or
// panics.
type tableFile struct {
	name        string
	file        *os.File
	size        int64
	compression options.CompressionType
	// key is the data key of the table's blocks and index. It is nil if they are not encrypted.
	key []byte
	// raw and plain are buffers that are reused for every block.
	raw, plain []byte
}

// Tables are the tables that the MANIFEST of a directory lists.
type Tables struct {
	dir    string
	listed map[uint64]badger.TableManifest
	keys   *registry
}

// OpenTables reads the MANIFEST, which lists the tables, and then the data keys. In this order, the
// keys include every key that a listed table uses, even while the store is written. master is the
// master key of an encrypted directory.
func OpenTables(dir string, master []byte) (*Tables, error) {
	file, err := os.Open(filepath.Join(dir, badger.ManifestFilename))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	manifest, _, err := badger.ReplayManifestFile(file, 0, badger.Options{})
	if err != nil {
		return nil, layout.NewDamage(badger.ManifestFilename, "%v", err)
	}
	keys, err := readRegistry(dir, master)
	return &Tables{dir: dir, listed: manifest.Tables, keys: keys}, err
}

// verifyAll verifies every listed table and returns the number of the newest commit group in them.
func (ts *Tables) verifyAll() (newest uint64, err error) {
	ids := make(chan uint64, len(ts.listed))
	for id := range ts.listed {
		ids <- id
	}
	close(ids)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for id := range ids {
				group, e := ts.Verify(id)
				mu.Lock()
				newest, err = max(newest, group), errors.Join(err, e)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return newest, err
}

// Verify verifies all data of a table, and returns the number of the newest commit group in it. If the
// table is not listed, it returns no error.
func (ts *Tables) Verify(id uint64) (newest uint64, err error) {
	listed, ok := ts.listed[id]
	if !ok {
		return 0, nil
	}
	return verifyTable(ts.dir, id, listed.Compression, ts.keys.keys[listed.KeyID])
}

func tableName(id uint64) string { return fmt.Sprintf("%06d.sst", id) }

// verifyTable checks every block of a table file, and returns the newest commit group in it. A fault is a
// *[layout.Damage].
func verifyTable(dir string, id uint64, compression options.CompressionType, key []byte) (newest uint64, err error) {
	t := &tableFile{name: tableName(id), compression: compression, key: key}
	if t.file, err = os.Open(filepath.Join(dir, t.name)); errors.Is(err, os.ErrNotExist) {
		return 0, layout.NewDamage(t.name, "it is missing")
	}
	if err != nil {
		return 0, err
	}
	defer t.file.Close()
	info, err := t.file.Stat()
	if err != nil {
		return 0, err
	}
	t.size = info.Size()
	// The index is a flatbuffer, which is read without bounds checks, so an invalid index can cause a
	// panic.
	defer func() {
		if p := recover(); p != nil {
			err = layout.NewDamage(t.name, "its index makes no sense: %v", p)
		}
	}()
	raw, err := t.index()
	if err != nil {
		return 0, err
	}
	index := fb.GetRootAsTableIndex(raw, 0)
	var block fb.BlockOffset
	for i := range index.OffsetsLength() {
		if !index.Offsets(&block, i) {
			return 0, layout.NewDamage(t.name, "its index has no block %d", i)
		}
		if err := t.block(int64(block.Offset()), int64(block.Len())); err != nil {
			return 0, err
		}
	}
	return index.MaxVersion(), nil
}

// read reads bytes of the table at an offset. It returns damage if the file does not have these bytes, or if
// they cannot be read.
func (t *tableFile) read(b []byte, at int64) error {
	if at < 0 || at+int64(len(b)) > t.size {
		return layout.NewDamage(t.name, "it has %d bytes and is cut: byte %d should be there", t.size, at+int64(len(b)))
	}
	if _, err := t.file.ReadAt(b, at); err != nil {
		if errors.Is(err, io.EOF) {
			return layout.NewDamage(t.name, "it ends at once")
		}
		return layout.NewDamage(t.name, "it cannot be read: %v", err)
	}
	return nil
}

// tail reads a part of the table that is followed by its length in four bytes, which end at the offset
// end. It also returns the offset at which the part starts.
func (t *tableFile) tail(end int64) (b []byte, start int64, err error) {
	var length [4]byte
	if err := t.read(length[:], end-4); err != nil {
		return nil, 0, err
	}
	n := int64(binary.BigEndian.Uint32(length[:]))
	if start = end - 4 - n; start < 0 {
		return nil, 0, layout.NewDamage(t.name, "its end makes no sense")
	}
	b = make([]byte, n)
	return b, start, t.read(b, start)
}

// index reads the index of the table and verifies it.
func (t *tableFile) index() ([]byte, error) {
	index, sum, err := t.indexParts()
	if err != nil {
		return nil, err
	}
	if err := t.verify("index", index, sum); err != nil {
		return nil, err
	}
	return t.decrypt(index)
}

// indexParts reads the index of the table, as it is stored, and its checksum.
func (t *tableFile) indexParts() (index, sum []byte, err error) {
	sum, start, err := t.tail(t.size)
	if err == nil {
		index, _, err = t.tail(start)
	}
	return index, sum, err
}

// decrypt decrypts a block or an index of the table in place. The last bytes of data are the
// initialization vector.
func (t *tableFile) decrypt(data []byte) ([]byte, error) {
	if t.key == nil {
		return data, nil
	}
	end := len(data) - aes.BlockSize
	if end < 0 {
		return nil, layout.NewDamage(t.name, "%d bytes are too few to be encrypted", len(data))
	}
	return data[:end], y.XORBlock(data[:end], data[:end], t.key, data[end:])
}

func (t *tableFile) verify(what string, data, sum []byte) error {
	var want pb.Checksum
	if err := proto.Unmarshal(sum, &want); err != nil || want.Algo != pb.Checksum_CRC32C && want.Algo != pb.Checksum_XXHash64 {
		return layout.NewDamage(t.name, "the checksum of its %s makes no sense", what)
	}
	if err := y.VerifyChecksum(data, &want); err != nil {
		return layout.NewDamage(t.name, "its %s fails its checksum", what)
	}
	return nil
}

// block verifies a block.
func (t *tableFile) block(at, length int64) error {
	_, err := t.rowsAt(at, length)
	return err
}

// rowsAt reads and verifies a block. It returns the block's rows with their offsets, without the checksum. The
// result is valid until the next call.
func (t *tableFile) rowsAt(at, length int64) ([]byte, error) {
	if at < 0 || length < 0 || at+length > t.size {
		return nil, layout.NewDamage(t.name, "it has %d bytes and is cut: byte %d should be there", t.size, at+length)
	}
	if int64(cap(t.raw)) < length {
		t.raw = make([]byte, length)
	}
	t.raw = t.raw[:length]
	if err := t.read(t.raw, at); err != nil {
		return nil, err
	}
	return t.open(at, t.raw)
}

// open decrypts, decompresses and verifies the bytes of the block at an offset. It decrypts raw in place.
func (t *tableFile) open(at int64, raw []byte) ([]byte, error) {
	what := fmt.Sprintf("block at byte %d", at)
	raw, err := t.decrypt(raw)
	if err != nil {
		return nil, err
	}
	data, err := t.decompress(raw)
	if err != nil || len(data) < 8 {
		return nil, layout.NewDamage(t.name, "its %s cannot be decompressed: %v", what, err)
	}
	n := int64(binary.BigEndian.Uint32(data[len(data)-4:]))
	end := int64(len(data)) - 4 - n
	if end < 4 {
		return nil, layout.NewDamage(t.name, "its %s ends without a checksum", what)
	}
	return data[:end], t.verify(what, data[:end], data[end:len(data)-4])
}

// maxBlock is the maximum size of a decompressed block in bytes. Badger ends a block with the row that
// exceeds 4 KiB, so a block with a large row is larger than 4 KiB.
const maxBlock = 16 << 20

// decompress returns the plain bytes of a block, which are valid until the next call.
func (t *tableFile) decompress(raw []byte) ([]byte, error) {
	switch t.compression {
	case options.None:
		return raw, nil
	case options.Snappy:
		n, err := snappy.DecodedLen(raw)
		if err != nil {
			return nil, err
		}
		if n > maxBlock {
			return nil, fmt.Errorf("it would have %d bytes", n)
		}
		if cap(t.plain) < n {
			t.plain = make([]byte, n)
		}
		return snappy.Decode(t.plain[:cap(t.plain)], raw)
	}
	return nil, fmt.Errorf("compression %d is none that this program writes", t.compression)
}
