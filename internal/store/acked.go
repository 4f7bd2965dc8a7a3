package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// acked is what the HEAD file says: how far the store had come when callers were
// last answered. A start that finds less refuses.
//
// The rule is that it never claims what is not synced yet: it is written after a
// group's sync and before the group's answers, so that an old or torn copy is
// harmless. The reasons are in docs/adr/0017-damage.md.
type acked struct {
	epoch [16]byte
	// since is the group after which every group left its number in the database:
	// what came before, from an older version, cannot be counted.
	since uint64
	// group is the number (Badger's timestamp) of the last group that was answered.
	group uint64
	// values is the newest value-log file that may hold a value of such a group.
	values uint32
	// collecting: values are being moved, so that the newest value log may hold
	// copies whose end was not written.
	collecting bool

	// The last journal entry, cursor 0 = none, with its hash, which is the chain.
	ns     uint32
	cursor uint64
	hash   [32]byte
}

// The file has two slots, in pages of their own, which are written in turn: of a
// write that was cut short the other remains.
const (
	headName  = "HEAD"
	slotBytes = 4096
	// magic(8) | count(8) | epoch(16) | since(8) | group(8) | values(4) |
	// collecting(4) | ns(4) | cursor(8) | hash(32) | CRC-32C(4)
	ackedBytes = 8 + 8 + 16 + 8 + 8 + 4 + 4 + 4 + 8 + 32 + 4
)

var headMagic = [8]byte{'P', 'a', 'w', 'l', 'H', 'E', 'A', 'D'}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode appends the slot's bytes; count says which of two slots is newer.
func (a *acked) encode(b []byte, count uint64) []byte {
	b = binary.BigEndian.AppendUint64(append(b, headMagic[:]...), count)
	b = binary.BigEndian.AppendUint64(append(b, a.epoch[:]...), a.since)
	b = binary.BigEndian.AppendUint64(b, a.group)
	b = binary.BigEndian.AppendUint32(b, a.values)
	collecting := uint32(0)
	if a.collecting {
		collecting = 1
	}
	b = binary.BigEndian.AppendUint32(b, collecting)
	b = binary.BigEndian.AppendUint32(b, a.ns)
	b = binary.BigEndian.AppendUint64(b, a.cursor)
	b = append(b, a.hash[:]...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decode reads a slot; false if it is not whole.
func (a *acked) decode(b []byte) (count uint64, ok bool) {
	if len(b) < ackedBytes || [8]byte(b) != headMagic {
		return 0, false
	}
	sum := b[ackedBytes-4 : ackedBytes]
	if crc32.Checksum(b[:ackedBytes-4], castagnoli) != binary.BigEndian.Uint32(sum) {
		return 0, false
	}
	count = binary.BigEndian.Uint64(b[8:])
	a.epoch = [16]byte(b[16:])
	a.since, a.group = binary.BigEndian.Uint64(b[32:]), binary.BigEndian.Uint64(b[40:])
	a.values, a.collecting = binary.BigEndian.Uint32(b[48:]), binary.BigEndian.Uint32(b[52:]) != 0
	a.ns, a.cursor = binary.BigEndian.Uint32(b[56:]), binary.BigEndian.Uint64(b[60:])
	a.hash = [32]byte(b[68:])
	return count, true
}

// readAcked reads the newest whole slot of a directory's HEAD file; nil if there is
// none: a store of an older version, or one whose first start was cut short.
func readAcked(dir string) (*acked, error) {
	data, err := os.ReadFile(filepath.Join(dir, headName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var newest *acked
	var most uint64
	for at := 0; at < len(data); at += slotBytes {
		a := &acked{}
		if count, ok := a.decode(data[at:]); ok && (newest == nil || count > most) {
			newest, most = a, count
		}
	}
	return newest, nil
}

// headFile is the open HEAD file of a store.
type headFile struct {
	dir string

	mu    sync.Mutex
	file  *os.File
	acked acked
	count uint64
	slot  []byte
	// newest is the newest value-log file that there is; it need not hold a value.
	newest uint32
	// dirty: written since the last sync.
	dirty bool
}

// newHeadFile makes the file anew, synced, in place of the old one.
func newHeadFile(dir string, a acked, newest uint32) (*headFile, error) {
	path := filepath.Join(dir, headName)
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	h := &headFile{dir: dir, file: file, acked: a, newest: newest}
	// The space of both slots now: a later write needs no new block.
	_, err = file.WriteAt(make([]byte, 2*slotBytes), 0)
	if err := errors.Join(err, h.write(), h.write(), file.Sync(), os.Rename(path+".new", path), syncDir(dir)); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return h, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (h *headFile) write() error {
	h.count++
	h.dirty = true
	h.slot = h.acked.encode(h.slot[:0], h.count)
	_, err := h.file.WriteAt(h.slot, int64(h.count%2)*slotBytes)
	return err
}

// note takes a group that was synced and is about to be answered. It costs no sync
// of its own: what the system has survives the death of the process, and after a
// loss of power an older claim is as true.
func (h *headFile) note(g *group, number uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.present(); err != nil {
		return err
	}
	h.acked.group = number
	if g.size.bytes >= valueThreshold && holdsValue(g) {
		h.newest = newestValues(h.dir, h.newest)
		h.acked.values = h.newest
	}
	for _, r := range slices.Backward(g.requests) {
		if w := r.w; w.entry >= 0 {
			h.acked.ns, h.acked.cursor, h.acked.hash = w.ns, w.cursor, w.hash
			break
		}
	}
	if err := h.write(); err != nil {
		return fmt.Errorf("write %s: %w", headName, err)
	}
	return nil
}

// holdsValue: something of the group lies in the value log.
func holdsValue(g *group) bool {
	for _, places := range g.places {
		if len(places) >= valueThreshold {
			return true
		}
	}
	for _, r := range g.requests {
		for i := range r.w.ops {
			if len(r.w.ops[i].Value) >= valueThreshold {
				return true
			}
		}
	}
	return false
}

// newestValues follows the value log from one of its files to the newest.
func newestValues(dir string, at uint32) uint32 {
	for {
		if _, err := os.Lstat(filepath.Join(dir, valueLogName(at+1))); err != nil {
			return at
		}
		at++
	}
}

func valueLogName(id uint32) string { return fmt.Sprintf("%06d.vlog", id) }

// present reports that the file was taken away, and with it the directory: writes
// to files without a name succeed, and are gone with the process.
func (h *headFile) present() error {
	var st unix.Stat_t
	if err := unix.Fstat(int(h.file.Fd()), &st); err != nil {
		return fmt.Errorf("look at %s: %w", headName, err)
	}
	if st.Nlink == 0 {
		return damage(headName, "it was removed from %s while the store was open: what the directory held is lost, and nothing more is taken; stop, restore a backup and start again", h.dir)
	}
	return nil
}

// look is present for those who do not write.
func (h *headFile) look() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.present()
}

// sync brings the claim onto the disk.
func (h *headFile) sync() error {
	h.mu.Lock()
	dirty := h.dirty
	h.dirty = false
	h.mu.Unlock()
	if !dirty {
		return nil
	}
	// No group waits for this one.
	return h.file.Sync()
}

// collect notes, synced, whether values are being moved.
func (h *headFile) collect(under bool) error {
	h.mu.Lock()
	h.acked.collecting = under
	err := h.write()
	h.mu.Unlock()
	return errors.Join(err, h.sync())
}

func (h *headFile) close() error { return errors.Join(h.sync(), h.file.Close()) }
