package datadir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// AckMark is the content of the HEAD file: the newest commit that the store has acknowledged to
// callers. If a start finds less in the database than HEAD records, data was lost, and the start fails.
//
// HEAD is written after the sync of a group of commits and before its callers are answered, so it never
// records anything that is not synced. Therefore an old or incomplete copy of HEAD is harmless. The
// reasons are in docs/dev/adr/0017-damage.md.
type AckMark struct {
	Epoch [16]byte
	// Since is the number of a commit group. The database contains the numbers of all later groups.
	// Earlier groups were written by an older version of the program, which did not number all of them.
	Since uint64
	// Group is the number (Badger's timestamp) of the last commit group whose callers were answered.
	Group uint64
	// values is the number of the newest value log that could contain a value of an acknowledged commit
	// group.
	values uint32
	// Collecting means that Badger is moving values to a new value log. The newest value log may then
	// end with an incomplete copy of a value.
	Collecting bool

	layout.LastEntry
}

// The HEAD file has two slots (copies of its contents) in different disk pages, which are written
// alternately. If one write is interrupted, the other slot is still valid.
const (
	HeadName  = "HEAD"
	SlotBytes = 4096
	// A slot of the file consists of these fields, with their sizes in bytes: magic(8) | count(8) |
	// epoch(16) | since(8) | group(8) | values(4) | collecting(4) | ns(4) | cursor(8) | hash(32) |
	// CRC-32C(4)
	ackedBytes = 8 + 8 + 16 + 8 + 8 + 4 + 4 + 4 + 8 + 32 + 4
)

var headMagic = [8]byte{'P', 'a', 'w', 'l', 'H', 'E', 'A', 'D'}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode appends the bytes of a slot (one of the two copies in the HEAD file) to b. The slot with the
// higher count is the newer one.
func (a *AckMark) encode(b []byte, count uint64) []byte {
	b = binary.BigEndian.AppendUint64(append(b, headMagic[:]...), count)
	b = binary.BigEndian.AppendUint64(append(b, a.Epoch[:]...), a.Since)
	b = binary.BigEndian.AppendUint64(b, a.Group)
	b = binary.BigEndian.AppendUint32(b, a.values)
	collecting := uint32(0)
	if a.Collecting {
		collecting = 1
	}
	b = binary.BigEndian.AppendUint32(b, collecting)
	b = binary.BigEndian.AppendUint32(b, a.Ns)
	b = binary.BigEndian.AppendUint64(b, a.Cursor)
	b = append(b, a.Hash[:]...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decode decodes a slot (one of the two copies in the HEAD file). It returns false if the slot is
// incomplete or its checksum is wrong.
func (a *AckMark) decode(b []byte) (count uint64, ok bool) {
	if len(b) < ackedBytes || [8]byte(b) != headMagic {
		return 0, false
	}
	sum := b[ackedBytes-4 : ackedBytes]
	if crc32.Checksum(b[:ackedBytes-4], castagnoli) != binary.BigEndian.Uint32(sum) {
		return 0, false
	}
	count = binary.BigEndian.Uint64(b[8:])
	a.Epoch = [16]byte(b[16:])
	a.Since, a.Group = binary.BigEndian.Uint64(b[32:]), binary.BigEndian.Uint64(b[40:])
	a.values, a.Collecting = binary.BigEndian.Uint32(b[48:]), binary.BigEndian.Uint32(b[52:]) != 0
	a.Ns, a.Cursor = binary.BigEndian.Uint32(b[56:]), binary.BigEndian.Uint64(b[60:])
	a.Hash = [32]byte(b[68:])
	return count, true
}

// ReadAcked reads the HEAD file of a directory, which records the last acknowledged commit. If there is
// no valid HEAD file, it returns nil. This is so in a store of an older version, or after an
// interrupted first start.
func ReadAcked(dir string) (*AckMark, error) {
	newest, _, err := readSlots(dir)
	return newest, err
}

// readSlots does the same as ReadAcked, and returns the number of slots that are valid, which is 2 unless the file is damaged
// or its last write was interrupted.
func readSlots(dir string) (newest *AckMark, valid int, err error) {
	data, err := os.ReadFile(filepath.Join(dir, HeadName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	var most uint64
	for at := 0; at < len(data); at += SlotBytes {
		a := &AckMark{}
		count, ok := a.decode(data[at:])
		if ok {
			valid++
		}
		if ok && (newest == nil || count > most) {
			newest, most = a, count
		}
	}
	return newest, valid, nil
}

// CheckIn returns damage if the database lacks the journal entry that HEAD records as the last acknowledged
// one. A gap in its place is no damage, because it means that the run of the entry was deleted. Errors:
// *layout.Damage.
func (a *AckMark) CheckIn(txn *layout.Txn) error {
	if a == nil || a.Cursor == 0 {
		return nil
	}
	seen := false
	err := layout.EachPlace(txn, a.Ns, a.Cursor, func(cursor uint64, place codec.EntryRef) (bool, error) {
		seen = true
		if place.Gap() {
			return false, nil
		}
		e, _, err := layout.EntryAt(txn, a.Ns, place)
		if err == nil && e.Hash != a.Hash {
			err = layout.NewDamage(HeadName, "commit %d has the hash %x, %x was acknowledged", cursor, e.Hash, a.Hash)
		}
		return false, err
	})
	if err == nil && !seen {
		err = layout.NewDamage(HeadName, "commit %d was acknowledged, the database has none of it", a.Cursor)
	}
	return layout.Typed(err)
}

// AckFile is the open HEAD file of a store, which records the acknowledged commits.
type AckFile struct {
	dir string

	mu    sync.Mutex
	file  *os.File
	acked AckMark
	Count uint64
	slot  []byte
	// newest is the number of the newest existing value log of Badger, which may be empty.
	newest uint32
	// dirty means that the file was written since the last sync.
	dirty bool
	// syncing is held by the goroutine that syncs the file.
	syncing sync.Mutex
}

// NewAckFile creates a new HEAD file, syncs it, and replaces the old HEAD file.
func NewAckFile(dir string, a AckMark, newest uint32) (*AckFile, error) {
	path := filepath.Join(dir, HeadName)
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	h := &AckFile{dir: dir, file: file, acked: a, newest: newest}
	// Writing both slots of the file allocates their disk space, so that later writes need no new disk
	// blocks.
	_, err = file.WriteAt(make([]byte, 2*SlotBytes), 0)
	if err := errors.Join(err, h.write(), h.write(), file.Sync(), os.Rename(path+".new", path), SyncDir(dir)); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return h, nil
}

// SyncDir syncs a directory, so that the names of its files are on disk.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (h *AckFile) write() error {
	h.Count++
	h.dirty = true
	h.slot = h.acked.encode(h.slot[:0], h.Count)
	_, err := h.file.WriteAt(h.slot, int64(h.Count%2)*SlotBytes)
	return err
}

// SetProgress records a commit group that was synced and whose callers are about to be answered. number
// is the number of the group. values reports whether the value log has any of its values. last is its
// last entry. SetProgress does not sync the file: if only the process dies, the operating system still
// has the write. After a loss of power the file may have an older record, which is also correct.
func (h *AckFile) SetProgress(number uint64, values bool, last *layout.LastEntry) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.checkPresent(); err != nil {
		return err
	}
	h.acked.Group = number
	if values {
		h.newest = newestValues(h.dir, h.newest)
		h.acked.values = h.newest
	}
	if last != nil {
		h.acked.LastEntry = *last
	}
	if err := h.write(); err != nil {
		return fmt.Errorf("write %s: %w", HeadName, err)
	}
	return nil
}

// newestValues returns the number of the newest value log. It searches upwards from at, which is the
// number of an existing value log.
func newestValues(dir string, at uint32) uint32 {
	for {
		if _, err := os.Lstat(filepath.Join(dir, ValueLogName(at+1))); err != nil {
			return at
		}
		at++
	}
}

// ValueLogName returns the name of the file of a value log.
func ValueLogName(id uint32) string { return fmt.Sprintf("%06d.vlog", id) }

// checkPresent returns an error if the HEAD file was removed, which means that the whole directory was
// removed. Without this check writes would succeed, but their data would be lost when the process ends.
func (h *AckFile) checkPresent() error {
	var st unix.Stat_t
	if err := unix.Fstat(int(h.file.Fd()), &st); err != nil {
		return fmt.Errorf("look at %s: %w", HeadName, err)
	}
	if st.Nlink == 0 {
		return layout.NewDamage(HeadName, "it was removed from %s while the store was open: what the directory held is lost, and nothing more is taken; stop, restore a backup and start again", h.dir)
	}
	return nil
}

// CheckPresent calls checkPresent, for a caller that does not hold the mutex h.mu. It returns an error if the
// HEAD file was removed.
func (h *AckFile) CheckPresent() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.checkPresent()
}

// Sync syncs the last written slot of the HEAD file to disk.
func (h *AckFile) Sync() error {
	// Another goroutine may have reset dirty and still be syncing. This lock waits until its sync has
	// ended.
	h.syncing.Lock()
	defer h.syncing.Unlock()
	h.mu.Lock()
	dirty := h.dirty
	h.dirty = false
	h.mu.Unlock()
	if !dirty {
		return nil
	}
	// mu is not held during the sync, so that no commit group has to wait for it.
	return h.file.Sync()
}

// SetCollecting records in the HEAD file whether Badger is moving values to a new value log, and syncs
// the file.
func (h *AckFile) SetCollecting(under bool) error {
	h.mu.Lock()
	h.acked.Collecting = under
	err := h.write()
	h.mu.Unlock()
	return errors.Join(err, h.Sync())
}

// Close syncs and closes the file.
func (h *AckFile) Close() error { return errors.Join(h.Sync(), h.file.Close()) }
