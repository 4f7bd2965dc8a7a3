package datadir

import (
	"crypto/aes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/pawl-dev/pawl/internal/store/layout"
)

// FoundRow is one version of a row that was read from a damaged directory. Its bytes are valid only until the callback
// returns.
type FoundRow struct {
	Key, Value []byte
	// Group is the number of the commit group that wrote the version. Deleted means that it removed the row.
	Group   uint64
	Deleted bool
	// At is the position of the block or record that contains the row. Apart is the position of the row's value in a
	// value log. If the value is stored with the row, Apart.File is "".
	At, Apart Place
}

// Place is a part of a file.
type Place struct {
	File     string
	From, To int64
}

// ReadDamaged reads every version of every row that can still be read in a directory, in no order, and calls found
// for each. It calls lost for every part that cannot be read, with the file and the place. It never writes. The
// caller has locked the directory. master is the master key of an encrypted directory.
//
// Each row is read from a block or record whose checksum is right. ReadDamaged leaves a table out if the MANIFEST is whole
// and the table was merged into another one: it has rows that were deleted later. If the MANIFEST is damaged, or a table
// that it lists is missing, ReadDamaged reads every table in the directory. Of a commit group that was not
// acknowledged it reads only what is complete. Errors: *[KeyError], *[layout.Damage] if the file with the data
// keys of an encrypted directory is missing, and the errors of found.
func ReadDamaged(dir string, master []byte, found func(FoundRow) error, lost func(*layout.Damage)) error {
	n := inspection{dir: dir, files: map[string]bool{}, keyed: len(master) > 0}
	if err := n.list(); err != nil {
		return err
	}
	s := &salvage{inspection: n, found: found, lost: lost, opened: map[uint32]*os.File{}}
	defer s.close()
	if err := s.prepare(master); err != nil {
		return err
	}
	newest := uint64(0)
	for id := range s.listed {
		if newest = max(newest, id); !s.files[tableName(id)] {
			s.lose(layout.NewDamage(tableName(id), "it is missing"))
			s.sure = false
		}
	}
	for _, f := range s.tables {
		// A newer table that is not listed was not finished, or the end of the MANIFEST is lost. All its rows are also elsewhere.
		if _, listed := s.listed[f.id]; s.sure && !listed && f.id < newest {
			continue
		}
		if err := s.table(f.id); err != nil {
			return err
		}
	}
	if err := s.readLogs(); err != nil {
		return err
	}
	return s.foreign
}

// readLogs reads the logs of the memtables. It reports what is no whole record, and commit groups that are missing: their
// numbers follow each other. It does not report the end of the last log if that is newer than the last acknowledged
// group.
func (s *salvage) readLogs() error {
	limit, have := s.newest, s.newest // Tables have whole groups.
	if s.Head != nil {
		limit, have = max(limit, s.Head.Group), max(have, s.Head.Since)
	}
	for _, f := range s.logs {
		err := s.records(f.name, func(r *logRecord) error {
			if r.meta&metaEnd != 0 {
				limit = max(limit, r.version())
			}
			return nil
		}, func(*layout.Damage, bool) {})
		if err != nil {
			return err
		}
	}
	damaged := false // a fault was reported since the last whole record
	for i, f := range s.logs {
		err := s.records(f.name, func(r *logRecord) error {
			group := r.version()
			if r.meta&(metaTransaction|metaEnd) != 0 && group > have+1 && group <= limit {
				if !damaged && s.Head != nil {
					s.lose(layout.NewDamage(f.name, "before group %d of commits comes group %d, which is not whole or not there: a log or a table is missing, or its end", group, group-1))
				}
				have = group - 1
			}
			damaged = false
			if r.meta&metaEnd != 0 {
				have = max(have, group)
				return nil
			}
			if group > limit {
				return nil
			}
			return s.rowOf(Place{f.name, int64(r.at), int64(r.end)}, r.meta, r.key, r.value)
		}, func(d *layout.Damage, atEnd bool) {
			if atEnd && i == len(s.logs)-1 && (s.Head == nil || have >= s.Head.Group) {
				return // A commit that was not acknowledged, cut by a crash.
			}
			damaged = true
			s.lost(d)
		})
		if err != nil {
			return err
		}
	}
	if s.Head != nil && have < s.Head.Group {
		s.lose(layout.NewDamage(HeadName, "group %d of commits was acknowledged, the last that can be read whole is %d: a log or a table is missing, or its end", s.Head.Group, have))
	}
	return nil
}

// salvage reads a damaged directory.
type salvage struct {
	inspection
	found func(FoundRow) error
	lost  func(*layout.Damage)
	// listed are the tables that the MANIFEST lists, as far as it can be read.
	listed map[uint64]badger.TableManifest
	// sure means that the MANIFEST is whole and that all tables are there that it lists.
	sure bool
	// newest is the newest commit group of which a row was read.
	newest uint64
	// opened are the open value logs. A missing one is nil.
	opened map[uint32]*os.File
	// foreign is the error of found.
	foreign error
}

func (s *salvage) close() {
	for _, f := range s.opened {
		if f != nil {
			_ = f.Close()
		}
	}
}

// prepare reads what is needed to read the rows: the list of tables, the data keys and the last acknowledged commit.
func (s *salvage) prepare(master []byte) (err error) {
	var valid int
	if s.Head, valid, err = readSlots(s.dir); err != nil {
		return err
	}
	switch {
	case s.Head == nil:
		s.lose(layout.NewDamage(HeadName, "it is missing or not valid, so it is not known which commit was the last"))
	case valid < 2:
		s.lose(layout.NewDamage(HeadName, "one of its two copies is not valid: a group of commits after %d may have been acknowledged", s.Head.Group))
	}
	file, err := os.Open(filepath.Join(s.dir, badger.ManifestFilename))
	switch {
	case errors.Is(err, os.ErrNotExist):
		s.lose(layout.NewDamage(badger.ManifestFilename, "it is missing"))
	case err != nil:
		return err
	default:
		manifest, end, err := badger.ReplayManifestFile(file, 0, badger.Options{})
		info, statErr := file.Stat()
		_ = file.Close()
		if err != nil {
			s.lose(layout.NewDamage(badger.ManifestFilename, "%v", err))
		}
		s.listed, s.sure = manifest.Tables, err == nil && statErr == nil && end == info.Size()
	}
	if s.keys, err = readRegistry(s.dir, master); err != nil {
		return err
	}
	return s.checkMaster()
}

// checkMaster returns an error if no file of the directory can be decrypted with the master key, or if there is
// none and the files are encrypted.
func (s *salvage) checkMaster() error {
	named := false
	for _, table := range s.listed {
		named = named || table.KeyID != 0
	}
	for _, f := range slices.Concat(s.logs, s.values) {
		err := WithFile(s.dir, f.name, func(data []byte) error {
			// If the header of an unencrypted log is damaged, the log also seems to name a key. So an id counts only if
			// it is in the range of real ids.
			id := keyID(data)
			named = named || id != 0 && id < 1<<32
			return nil
		})
		if err != nil {
			return err
		}
	}
	switch {
	case s.keys.state == registryOpen:
		return nil
	case s.keyed && s.keys.state == registryLocked:
		return lockedError(true)
	case s.keyed && named:
		return layout.NewDamage(RegistryName, "it is missing or cut, and the files are encrypted under keys in it: without a copy of it nothing can be read")
	case s.keyed:
		return s.keys.judgePlain(true, false)
	case named && s.keys.state == registryLocked && s.keys.size > registryBytes:
		return lockedError(false)
	}
	return nil
}

// lose reports a part that cannot be read.
func (s *salvage) lose(err error) {
	if damage, ok := errors.AsType[*layout.Damage](err); ok {
		s.lost(damage)
	}
}

// table reads the rows of a table. If the index of the table is damaged, the blocks are found without it, as far
// as this is possible.
func (s *salvage) table(id uint64) error {
	name := tableName(id)
	file, err := os.Open(filepath.Join(s.dir, name))
	if err != nil {
		s.lose(layout.NewDamage(name, "it cannot be opened: %v", err))
		return nil
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	t := &tableFile{name: name, file: file, size: info.Size(), compression: options.Snappy}
	keys := [][]byte{nil}
	if s.keys.state == registryOpen {
		keys = slices.Collect(maps.Values(s.keys.keys))
	}
	if listed, ok := s.listed[id]; ok {
		t.compression = listed.Compression
		if key := s.keys.keys[listed.KeyID]; key != nil || listed.KeyID == 0 && s.keys.state != registryOpen {
			keys = [][]byte{key}
		}
	}
	for i, key := range keys {
		if t.key = key; t.opens() || i == len(keys)-1 {
			break
		}
	}
	index, sum, err := t.indexParts()
	if err == nil {
		err = t.verify("index", index, sum)
	}
	whole := err == nil
	if !whole {
		s.lose(err)
	}
	if !whole && t.key == nil {
		return s.blocksWithoutIndex(t)
	}
	if index == nil {
		s.lose(layout.NewDamage(name, "its index is lost, and without it an encrypted table cannot be read"))
		return nil
	}
	if index, err = t.decrypt(index); err != nil {
		s.lose(err)
		return nil
	}
	return s.indexedBlocks(t, index)
}

// opens reports whether the first block that the index names can be read with the key of the table.
func (t *tableFile) opens() (ok bool) {
	defer func() { ok = recover() == nil && ok }()
	index, _, err := t.indexParts()
	if err == nil {
		index, err = t.decrypt(slices.Clone(index))
	}
	if err != nil {
		return false
	}
	var block fb.BlockOffset
	if !fb.GetRootAsTableIndex(index, 0).Offsets(&block, 0) {
		return false
	}
	_, err = t.rowsAt(int64(block.Offset()), int64(block.Len()))
	return err == nil
}

// indexedBlocks reads the blocks that an index names. The index may be damaged, so that each of its numbers may be
// wrong. A wrong number is noticed, because every block has a checksum of its own.
func (s *salvage) indexedBlocks(t *tableFile, raw []byte) error {
	var index *fb.TableIndex
	count := 0
	if !try(func() { index = fb.GetRootAsTableIndex(raw, 0); count = index.OffsetsLength() }) || count > len(raw) {
		s.lose(layout.NewDamage(t.name, "its index makes no sense"))
		return nil
	}
	for i := range count {
		var block fb.BlockOffset
		var at, length int64
		if !try(func() {
			if index.Offsets(&block, i) {
				at, length = int64(block.Offset()), int64(block.Len())
			}
		}) || length == 0 {
			s.lose(layout.NewDamage(t.name, "its index does not name block %d", i))
			continue
		}
		rows, err := t.rowsAt(at, length)
		if err == nil {
			err = s.block(Place{t.name, at, at + length}, rows)
		}
		if s.foreign != nil {
			return s.foreign
		}
		if err != nil {
			s.lose(err)
		}
	}
	return nil
}

// try calls do and reports whether it returned without a panic. A damaged index can cause a panic, because it is read
// without bounds checks.
func try(do func()) (ok bool) {
	defer func() { ok = recover() == nil }()
	do()
	return
}

// blocksWithoutIndex finds the blocks of a table that is not encrypted without its index. Blocks follow each other,
// and compressed data shows where it ends. After a damaged block every byte is tried as the beginning of the next.
func (s *salvage) blocksWithoutIndex(t *tableFile) error {
	return WithFile(s.dir, t.name, func(data []byte) error {
		bad := -1
		for at := 0; at < len(data); {
			n := snappyLength(data[at:])
			var rows []byte
			err := layout.NewDamage(t.name, "no block")
			if n > 0 {
				rows, err = t.open(int64(at), slices.Clone(data[at:at+n]))
			}
			if err == nil {
				err = s.block(Place{t.name, int64(at), int64(at + n)}, rows)
			}
			if s.foreign != nil {
				return s.foreign
			}
			if err != nil {
				if bad < 0 {
					bad = at
				}
				at++
				continue
			}
			if bad >= 0 {
				s.lose(layout.NewDamage(t.name, "bytes %d to %d are no whole block", bad, at))
				bad = -1
			}
			at += n
		}
		return nil
	})
}

// snappyLength returns the length of the Snappy data at the beginning of b. It returns 0 if there is none. The data
// begins with its decompressed length, and each element says how many decompressed bytes it makes.
func snappyLength(b []byte) int {
	want, at := binary.Uvarint(b)
	if at <= 0 || want < 8 || want > maxBlock {
		return 0
	}
	for made := uint64(0); made < want; {
		if at >= len(b) {
			return 0
		}
		tag := b[at]
		n, size := uint64(tag>>2)+1, 1
		switch tag & 3 {
		case 0:
			if more := int(n) - 60; more > 0 {
				if at+1+more > len(b) {
					return 0
				}
				n = 0
				for i := range more {
					n |= uint64(b[at+1+i]) << (8 * i)
				}
				n, size = n+1, 1+more
			}
			if n > uint64(len(b)) {
				return 0
			}
			size += int(n)
		case 1:
			n, size = uint64(tag>>2&7)+4, 2
		case 2:
			size = 3
		default:
			size = 5
		}
		if made == 0 && tag&3 != 0 {
			return 0 // A copy has nothing to copy from.
		}
		made, at = made+n, at+size
		if made > want || at > len(b) {
			return 0
		}
	}
	return at
}

// block calls found with each row of a verified block:
//
//	rows | offsets of the rows(4 each) | their number(4)
//
// A row is: bytes in common with the first key(2) | length of the rest of the key(2) | rest | meta(1) | user
// meta(1) | expiry(varint) | value. Badger stores the numbers in the byte order of the machine, except the number
// of rows.
func (s *salvage) block(at Place, data []byte) error {
	malformed := layout.NewDamage(at.File, "its block at byte %d makes no sense", at.From)
	count := int(binary.BigEndian.Uint32(data[len(data)-4:]))
	end := len(data) - 4 - 4*count
	if count < 0 || end < 4 {
		return malformed
	}
	order := binary.NativeEndian
	var base []byte
	for i := range count {
		from, to := int(order.Uint32(data[end+4*i:])), end
		if i+1 < count {
			to = int(order.Uint32(data[end+4*(i+1):]))
		}
		if from < 0 || to > end || from+4 > to {
			return malformed
		}
		row := data[from:to]
		overlap, rest := int(order.Uint16(row)), int(order.Uint16(row[2:]))
		if overlap > len(base) || 4+rest+3 > len(row) {
			return malformed
		}
		key := slices.Concat(base[:overlap], row[4:4+rest])
		if i == 0 {
			base = key
		}
		value := row[4+rest:]
		_, n := binary.Uvarint(value[2:])
		if n <= 0 {
			return malformed
		}
		if err := s.rowOf(at, value[0], key, value[2+n:]); err != nil {
			return err
		}
	}
	return nil
}

// records calls visit with each whole record of the log of a memtable. After a damaged record every byte is tried
// as the beginning of the next. lost is called for each part between, and atEnd means that no whole record follows it.
func (s *salvage) records(name string, visit func(r *logRecord) error, lost func(d *layout.Damage, atEnd bool)) error {
	return WithFile(s.dir, name, func(data []byte) error {
		l := &logFile{name: name, data: data}
		if s.keys.state == registryOpen {
			var err error
			if l, err = s.openLog(name, data); err != nil {
				if damage, ok := errors.AsType[*layout.Damage](err); ok {
					lost(damage, false)
				}
				return nil
			}
		}
		written := len(data)
		for written > LogHeader && data[written-1] == 0 {
			written--
		}
		bad := -1
		for at := LogHeader; at < written; {
			r, whole := recordAt(data, at)
			if !whole || r.meta&metaEnd == 0 && !l.isOurs(r) {
				if bad < 0 {
					bad = at
				}
				at++
				continue
			}
			if bad >= 0 {
				lost(&layout.Damage{File: name, Detail: fmt.Sprintf("bytes %d to %d are no whole record", bad, at)}, false)
				bad = -1
			}
			at = r.end
			l.decrypt(&r)
			if err := visit(&r); err != nil {
				return err
			}
		}
		if bad >= 0 {
			lost(&layout.Damage{File: name, Detail: fmt.Sprintf("bytes %d to %d are no whole record", bad, written)}, true)
		}
		return nil
	})
}

// metaDelete is the bit in the meta byte of a row which means that the row was deleted.
const metaDelete = 1 << 0

// rowOf calls found with a row in the form that tables and logs have in common: the key ends with the version, and a
// large value is in a value log.
func (s *salvage) rowOf(at Place, meta byte, key, value []byte) error {
	if len(key) <= 8 || key[0] == '!' {
		return nil // Badger's own keys begin with "!badger!".
	}
	row := FoundRow{At: at, Key: key[:len(key)-8], Value: value, Deleted: meta&metaDelete != 0}
	row.Group = math.MaxUint64 - binary.BigEndian.Uint64(key[len(key)-8:])
	s.newest = max(s.newest, row.Group)
	if meta&metaPointer != 0 && !row.Deleted {
		p, ok := readPointer(value)
		if !ok {
			s.lose(layout.NewDamage(at.File, "the place of a value makes no sense"))
			return nil
		}
		row.Apart = Place{ValueLogName(p.file), int64(p.offset), int64(p.offset) + int64(p.length)}
		if row.Value, ok = s.valueAt(p, key); !ok {
			s.lose(layout.NewDamage(row.Apart.File, "the value at byte %d, of a row %s, is missing or not whole", p.offset, layout.RowName(key)))
			return nil
		}
	}
	if row.Deleted {
		row.Value = nil
	}
	if err := s.found(row); err != nil {
		s.foreign = err
		return err
	}
	return nil
}

// valueAt reads a value from a value log. It returns false unless the record there has the key of the row.
func (s *salvage) valueAt(p pointer, key []byte) ([]byte, bool) {
	file, known := s.opened[p.file]
	if !known {
		file, _ = os.Open(filepath.Join(s.dir, ValueLogName(p.file)))
		s.opened[p.file] = file
	}
	if file == nil || p.length > maxBlock {
		return nil, false
	}
	data := make([]byte, LogHeader)
	record := make([]byte, p.length)
	if _, err := file.ReadAt(record, int64(p.offset)); err != nil {
		return nil, false
	}
	r, whole := recordAt(record, 0)
	if !whole {
		return nil, false
	}
	l := &logFile{name: ValueLogName(p.file), data: data}
	if s.keys.state == registryOpen {
		if _, err := file.ReadAt(data, 0); err != nil {
			return nil, false
		}
		var err error
		if l.block, err = aes.NewCipher(s.keys.keys[keyID(data)]); err != nil {
			return nil, false
		}
	}
	r.at = int(p.offset)
	l.decrypt(&r)
	return r.value, string(r.key) == string(key)
}
