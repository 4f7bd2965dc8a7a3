package datadir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/internal/store/layout"
)

// The format of Badger's log files, for memtables (.mem) and values (.vlog): a header with the key
// id (8 bytes) and the initialization vector (12 bytes), then records:
//
//	meta(1) | user meta(1) | key length | value length | expiry | key | value | CRC-32C(4)
//
// The lengths and the expiry are varints. Zeros follow the last record. The last 8 bytes of a key
// are its version, inverted.
const (
	LogHeader       = 20
	metaPointer     = 1 << 1
	metaTransaction = 1 << 6
	metaEnd         = 1 << 7
)

// logRecord is one record of Badger's log. key and value are parts of the bytes of the file.
type logRecord struct {
	meta       byte
	key, value []byte
	// at is the offset at which the record begins. end is the offset after the record.
	at, end int
}

// version returns the number of the commit group that wrote the record.
func (r *logRecord) version() uint64 {
	if len(r.key) < 8 {
		return 0
	}
	return math.MaxUint64 - binary.BigEndian.Uint64(r.key[len(r.key)-8:])
}

// recordAt reads the record of a log at an offset. whole reports whether the record is complete and its
// checksum is correct.
func recordAt(data []byte, at int) (r logRecord, whole bool) {
	r = outlineAt(data, at)
	if r.end == 0 {
		return r, false
	}
	sum := r.end - 4
	return r, crc32.Checksum(data[at:sum], castagnoli) == binary.BigEndian.Uint32(data[sum:])
}

// outlineAt reads a record without checking its checksum. It sets the key only if the file contains the
// complete key, and end only if the file contains the complete record.
func outlineAt(data []byte, at int) (r logRecord) {
	if at+5 > len(data) {
		return r
	}
	lengths, next := [3]uint64{}, at+2
	for i := range lengths {
		length, n := binary.Uvarint(data[next:])
		if n <= 0 {
			return r
		}
		lengths[i], next = length, next+n
	}
	left := uint64(len(data) - next)
	if lengths[0] == 0 || lengths[0] > 1<<16 || lengths[0] > left {
		return r
	}
	body := next + int(lengths[0])
	r.meta, r.key, r.at = data[at], data[next:body], at
	if left -= lengths[0]; left < 4 || lengths[1] > left-4 {
		return r
	}
	sum := body + int(lengths[1])
	r.value, r.end = data[body:sum], sum+4
	return r
}

// pointer is the position of a value in Badger's value log.
type pointer struct{ file, length, offset uint32 }

// readPointer decodes a pointer as Badger stores it, in the byte order of the machine.
func readPointer(b []byte) (pointer, bool) {
	if len(b) != 12 {
		return pointer{}, false
	}
	n := binary.NativeEndian
	return pointer{file: n.Uint32(b), length: n.Uint32(b[4:]), offset: n.Uint32(b[8:])}, true
}

// writeLog is the content of a memtable's log, up to the point at which Badger would stop when it
// replays the log.
type writeLog struct {
	name string
	// first and last are the first and the last commit group in the log, which contains all groups
	// between them. Both are 0 if it contains none.
	first, last uint64
	// end is the offset at which the replay ends.
	end      int
	pointers []pointer
}

// readWrites reads the log as Badger's replay does: complete transactions up to the first record that is
// incomplete or out of place. It also stops before a commit group whose number does not follow the one before.
func (f *logFile) readWrites() writeLog {
	l := writeLog{name: f.name, end: LogHeader}
	var open uint64
	var pending []pointer
	for at := LogHeader; ; {
		r, whole := recordAt(f.data, at)
		if !whole {
			return l
		}
		f.decrypt(&r)
		at = r.end
		switch {
		case r.meta&metaTransaction != 0:
			if open == 0 {
				open = r.version()
			}
			if r.version() != open {
				return l
			}
			pending = r.pointTo(pending)
		case r.meta&metaEnd != 0:
			group, err := strconv.ParseUint(string(r.value), 10, 64)
			if err != nil || group != open || l.last != 0 && group != l.last+1 {
				return l
			}
			l.end, l.last, open = at, group, 0
			if l.first == 0 {
				l.first = group
			}
			l.pointers, pending = append(l.pointers, pending...), pending[:0]
		case open != 0:
			return l
		default:
			// This record is a copy of a value that Badger's garbage collection has moved. It is not
			// part of a transaction.
			l.end, l.pointers = at, r.pointTo(l.pointers)
		}
	}
}

func (r *logRecord) pointTo(list []pointer) []pointer {
	if r.meta&metaPointer != 0 {
		if p, ok := readPointer(r.value); ok {
			return append(list, p)
		}
	}
	return list
}

// inspectValues checks the newest value log. Badger cuts this log at the first incomplete record, so no
// acknowledged value may be at or behind this offset. refs are the positions of the values to which the logs of
// the memtables refer. While Badger was moving values (Collecting), only refs are checked.
func (f *logFile) inspectValues(refs []pointer, head *AckMark) error {
	data, name, end := f.data, f.name, LogHeader
	for r, whole := recordAt(data, end); whole; r, whole = recordAt(data, end) {
		end = r.end
	}
	for _, p := range refs {
		if uint64(p.offset)+uint64(p.length) > uint64(end) {
			return layout.NewDamage(name, "the value at byte %d, which was acknowledged, is not whole: the file is readable up to byte %d of %d", p.offset, end, len(data))
		}
	}
	if head == nil || head.Collecting {
		return nil
	}
	if at, found := f.ackedBehind(end, head.Group); found {
		return layout.NewDamage(name, "it is readable up to byte %d, but the value at byte %d was acknowledged", end, at)
	}
	return nil
}

// ackedBehind searches the incomplete part of a value log, which begins at the offset end, for a value
// that belongs to the commit group or an earlier one, and so was acknowledged. It returns the offset of the
// value and whether there is one.
func (f *logFile) ackedBehind(end int, group uint64) (int, bool) {
	data := f.data
	if r := outlineAt(data, end); f.isValue(r, group) {
		return end, true
	}
	written := len(data)
	for written > end && data[written-1] == 0 {
		written--
	}
	for at := end + 1; at+1 < written; at++ {
		// The cheap conditions are checked first, because the search tries every byte as the beginning
		// of a record.
		if data[at]&^metaPointer != 0 || data[at+1] != 0 {
			continue
		}
		if r := outlineAt(data, at); r.end == 0 || !f.isValue(r, group) {
			continue
		}
		if _, whole := recordAt(data, at); whole {
			return at, true
		}
	}
	return 0, false
}

// isValue reports whether a record has a key of the store and was written by the given commit group or
// an earlier one.
func (f *logFile) isValue(r logRecord, group uint64) bool {
	r.value = nil
	f.decrypt(&r)
	return len(r.key) > 8 && layout.Kinds[r.key[0]].Row != "" && r.version() > 0 && r.version() <= group
}

// wholeValues checks that a value log to which Badger no longer writes is complete up to its last byte.
func wholeValues(dir, name string) error {
	return WithFile(dir, name, func(data []byte) error {
		end := LogHeader
		for end < len(data) {
			r, whole := recordAt(data, end)
			if !whole {
				return layout.NewDamage(name, "it is readable up to byte %d of %d", end, len(data))
			}
			end = r.end
		}
		return nil
	})
}

// WithFile calls read with the bytes of a file. The bytes end at the last written byte, because a hole
// at the end of a sparse file would be read as zeros. The file must not be truncated during the call.
func WithFile(dir, name string, read func(data []byte) error) error {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := WrittenBytes(f)
	if err != nil {
		return fmt.Errorf("size of %s: %w", name, err)
	}
	if size == 0 {
		return read(nil)
	}
	if size > math.MaxUint32 {
		return layout.NewDamage(name, "it has %d bytes, more than any log may have", size)
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map %s: %w", name, err)
	}
	defer func() { _ = unix.Munmap(data) }()
	return read(data)
}

// WrittenBytes returns the offset after the last written byte of a sparse file. It does not read the holes of
// the file, because on some file systems reading a hole allocates a disk block, and the disk may be full. If
// the file system does not report holes, it returns the size of the file.
func WrittenBytes(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	end := int64(0)
	for end < info.Size() {
		data, err := f.Seek(end, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		if err == nil {
			end, err = f.Seek(data, unix.SEEK_HOLE)
		}
		if err != nil {
			return info.Size(), nil
		}
	}
	return min(end, info.Size()), nil
}
