package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/y"
	"github.com/klauspost/compress/snappy"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/store/layout"
)

// tableFile reads one of Badger's tables:
//
//	blocks | index | its length(4) | its checksum | the checksum's length(4)
//
// where a block is compressed and ends in its own checksum and that one's length.
// Badger's own verification is of no use: at opening it leaves a damaged table
// out, or dies of it.
type tableFile struct {
	name        string
	file        *os.File
	size        int64
	compression options.CompressionType
	// raw and plain are reused from block to block.
	raw, plain []byte
}

// VerifyTable proves every byte of a table that counts, and returns the newest
// group in it.
func VerifyTable(dir string, id uint64, compression options.CompressionType) (newest uint64, err error) {
	t := &tableFile{name: fmt.Sprintf("%06d.sst", id), compression: compression}
	if t.file, err = os.Open(filepath.Join(dir, t.name)); errors.Is(err, os.ErrNotExist) {
		return 0, layout.Damaged(t.name, "it is missing")
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
	// Flatbuffers are read without bounds; those of a foreign index may panic.
	defer func() {
		if p := recover(); p != nil {
			err = layout.Damaged(t.name, "its index makes no sense: %v", p)
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
			return 0, layout.Damaged(t.name, "its index has no block %d", i)
		}
		if err := t.block(int64(block.Offset()), int64(block.Len())); err != nil {
			return 0, err
		}
	}
	return index.MaxVersion(), nil
}

// read is ReadAt within the file.
func (t *tableFile) read(b []byte, at int64) error {
	if at < 0 || at+int64(len(b)) > t.size {
		return layout.Damaged(t.name, "it has %d bytes and is cut: byte %d should be there", t.size, at+int64(len(b)))
	}
	if _, err := t.file.ReadAt(b, at); err != nil {
		if errors.Is(err, io.EOF) {
			return layout.Damaged(t.name, "it ends at once")
		}
		return layout.Damaged(t.name, "it cannot be read: %v", err)
	}
	return nil
}

// tail reads a length of four bytes that ends at end, and the bytes before it.
func (t *tableFile) tail(end int64) (b []byte, start int64, err error) {
	var length [4]byte
	if err := t.read(length[:], end-4); err != nil {
		return nil, 0, err
	}
	n := int64(binary.BigEndian.Uint32(length[:]))
	if start = end - 4 - n; start < 0 {
		return nil, 0, layout.Damaged(t.name, "its end makes no sense")
	}
	b = make([]byte, n)
	return b, start, t.read(b, start)
}

func (t *tableFile) index() ([]byte, error) {
	sum, start, err := t.tail(t.size)
	if err != nil {
		return nil, err
	}
	index, _, err := t.tail(start)
	if err != nil {
		return nil, err
	}
	return index, t.verify("index", index, sum)
}

func (t *tableFile) verify(what string, data, sum []byte) error {
	var want pb.Checksum
	if err := proto.Unmarshal(sum, &want); err != nil || want.Algo != pb.Checksum_CRC32C && want.Algo != pb.Checksum_XXHash64 {
		return layout.Damaged(t.name, "the checksum of its %s makes no sense", what)
	}
	if err := y.VerifyChecksum(data, &want); err != nil {
		return layout.Damaged(t.name, "its %s fails its checksum", what)
	}
	return nil
}

func (t *tableFile) block(at, length int64) (err error) {
	if int64(cap(t.raw)) < length {
		t.raw = make([]byte, length)
	}
	t.raw = t.raw[:length]
	if err := t.read(t.raw, at); err != nil {
		return err
	}
	what := fmt.Sprintf("block at byte %d", at)
	data, err := t.decompress()
	if err != nil || len(data) < 8 {
		return layout.Damaged(t.name, "its %s cannot be decompressed: %v", what, err)
	}
	n := int64(binary.BigEndian.Uint32(data[len(data)-4:]))
	end := int64(len(data)) - 4 - n
	if end < 4 {
		return layout.Damaged(t.name, "its %s ends without a checksum", what)
	}
	return t.verify(what, data[:end], data[end:len(data)-4])
}

// maxBlock bounds a block that is decompressed: Badger ends one at 4 KiB and a row.
const maxBlock = 16 << 20

func (t *tableFile) decompress() ([]byte, error) {
	switch t.compression {
	case options.None:
		return t.raw, nil
	case options.Snappy:
		n, err := snappy.DecodedLen(t.raw)
		if err != nil {
			return nil, err
		}
		if n > maxBlock {
			return nil, fmt.Errorf("it would have %d bytes", n)
		}
		if cap(t.plain) < n {
			t.plain = make([]byte, n)
		}
		return snappy.Decode(t.plain[:cap(t.plain)], t.raw)
	}
	return nil, fmt.Errorf("compression %d is none that this program writes", t.compression)
}
