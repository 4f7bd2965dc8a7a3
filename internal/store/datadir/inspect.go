package datadir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/store/layout"
)

// inspection checks the files of a locked directory before Badger opens it. Only DropUnborn changes files. The
// check is necessary because Badger treats a log as complete up to its first fault, deletes tables that its
// MANIFEST does not list, and starts empty if there is no MANIFEST.
type inspection struct {
	dir string
	// tables, logs and values are the files with the extensions .sst, .mem and .vlog, in the order of
	// their numbers.
	tables, logs, values []numbered
	files                map[string]bool
	Head                 *AckMark
	// unborn are files that may be deleted: empty files that a crash left before their first byte was written or
	// while they were being removed, a file of data keys without keys, and a faulty DISCARD.
	unborn []string
	// keyed means that the caller passed a master key. keys is the file of data keys, decrypted with
	// the master key.
	keyed bool
	keys  *registry
}

type numbered struct {
	name string
	id   uint64
	size int64
}

// Inspect checks that the files of a directory contain everything that was acknowledged. The result
// includes the content of the HEAD file. master is the master key of an encrypted directory, and nil
// for a directory without encryption. Errors: *[layout.Damage], *[KeyError].
func Inspect(dir string, master []byte) (*inspection, error) {
	n := &inspection{dir: dir, files: map[string]bool{}, keyed: len(master) > 0}
	if err := n.list(); err != nil {
		return nil, err
	}
	var err error
	if n.Head, err = ReadAcked(dir); err != nil {
		return nil, err
	}
	if !n.files[badger.ManifestFilename] {
		return n, n.checkManifest()
	}
	tables, err := OpenTables(dir, master)
	if err != nil {
		return nil, err
	}
	if err := n.checkKeys(tables); err != nil {
		return nil, err
	}
	flushed, err := tables.verifyAll()
	if err != nil {
		return nil, err
	}
	if err := n.checkLogs(flushed); err != nil {
		return nil, err
	}
	return n, n.checkRest()
}

// HasStore reports whether a directory contains files of a store, complete or not.
func HasStore(dir string) (bool, error) {
	n := &inspection{dir: dir, files: map[string]bool{}}
	if err := n.list(); err != nil {
		return false, err
	}
	return n.files[badger.ManifestFilename] || n.files[HeadName] || len(n.tables)+len(n.logs)+len(n.values) > 0, nil
}

// LastValues returns the number of a directory's newest value log. It returns 0 if there is none.
func LastValues(dir string) (uint32, error) {
	n := &inspection{dir: dir, files: map[string]bool{}}
	if err := n.list(); err != nil || len(n.values) == 0 {
		return 0, err
	}
	return uint32(n.values[len(n.values)-1].id), nil
}

// list collects the files of the directory by kind, sorted by number.
func (n *inspection) list() error {
	entries, err := os.ReadDir(n.dir)
	if err != nil {
		return err
	}
	kinds := map[string]*[]numbered{".sst": &n.tables, ".mem": &n.logs, ".vlog": &n.values}
	for _, e := range entries {
		n.files[e.Name()] = true
		ext := filepath.Ext(e.Name())
		id, err := strconv.ParseUint(strings.TrimSuffix(e.Name(), ext), 10, 32)
		kind := kinds[ext]
		if kind == nil || err != nil {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			// The open database has deleted the file in the meantime, so it is skipped.
			continue
		}
		if err != nil {
			return err
		}
		*kind = append(*kind, numbered{name: e.Name(), id: id, size: info.Size()})
	}
	for _, kind := range kinds {
		slices.SortFunc(*kind, func(a, b numbered) int { return int(int64(a.id) - int64(b.id)) })
	}
	return nil
}

// checkManifest is called if the directory has no MANIFEST, which is the first file that Badger
// creates. If the directory has other files of a store, the MANIFEST was lost, and checkManifest
// returns an error.
func (n *inspection) checkManifest() error {
	held := slices.Concat(n.tables, n.logs, n.values)
	if n.Head == nil && len(held) == 0 {
		return nil
	}
	detail := fmt.Sprintf("it is missing, but the directory has %d files of a store", len(held))
	if n.Head != nil {
		detail = fmt.Sprintf("it is missing, but %d groups of commits were acknowledged", n.Head.Group)
	}
	return layout.NewDamage(badger.ManifestFilename, "%s", detail)
}

// checkKeys checks that the master key decrypts every data key that a table or log names in its header.
// Without this check, a wrong master key would look like damage in all files.
func (n *inspection) checkKeys(tables *Tables) error {
	n.keys = tables.keys
	named := map[uint64]string{}
	for id, table := range tables.listed {
		if table.KeyID != 0 {
			named[table.KeyID] = tableName(id)
		}
	}
	logs := slices.Concat(n.logs, n.values)
	for _, f := range logs {
		err := WithFile(n.dir, f.name, func(data []byte) error {
			if id := keyID(data); id != 0 {
				named[id] = f.name
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return n.keys.checkFiles(named, n.keyed, len(logs)+len(tables.listed) == 0)
}

// checkLogs checks that tables and logs together contain every commit group up to the last acknowledged
// one. It also checks that the newest value log contains every value that they refer to.
func (n *inspection) checkLogs(flushed uint64) error {
	var refs []pointer
	have := flushed
	newest := writeLog{name: badger.ManifestFilename}
	for _, f := range n.logs {
		if f.size == 0 {
			n.unborn = append(n.unborn, f.name)
		}
		l, err := n.writeLog(f.name)
		if err != nil {
			return err
		}
		if err := n.checkContinuity(&l, have); err != nil {
			return err
		}
		have, newest = max(have, l.last), l
		refs = append(refs, l.pointers...)
	}
	if n.Head != nil && have < n.Head.Group {
		return layout.NewDamage(newest.name, "readable up to byte %d, it leads to group %d of commits; group %d was acknowledged: it is damaged, or a log or a table is missing", newest.end, have, n.Head.Group)
	}
	return n.checkValues(refs)
}

func (n *inspection) writeLog(name string) (l writeLog, err error) {
	err = WithFile(n.dir, name, func(data []byte) error {
		file, err := n.openLog(name, data)
		if err == nil {
			l = file.readWrites()
		}
		return err
	})
	return l, err
}

// checkContinuity returns an error if commit groups are missing between the earlier files and a log.
// have is the last group in the earlier files.
func (n *inspection) checkContinuity(l *writeLog, have uint64) error {
	if n.Head == nil || l.first == 0 {
		return nil
	}
	if have = max(have, n.Head.Since); l.first > have+1 {
		return layout.NewDamage(l.name, "it begins with group %d of commits, what is before it ends with %d: a log or a table is missing or cut", l.first, have)
	}
	return nil
}

// checkValues checks the beginning of every value log, and the whole newest one. Badger would cut the
// newest value log at a fault, and would reuse the number of a missing one.
func (n *inspection) checkValues(refs []pointer) error {
	var newest *numbered
	for i := range n.values {
		f := &n.values[i]
		if f.size == 0 {
			n.unborn = append(n.unborn, f.name)
			continue
		}
		newest = f
		err := WithFile(n.dir, f.name, func(data []byte) error {
			_, err := n.openLog(f.name, data)
			return err
		})
		if err != nil {
			return err
		}
	}
	if n.Head != nil && n.Head.values > 0 && (newest == nil || newest.id < uint64(n.Head.values)) {
		return layout.NewDamage(ValueLogName(n.Head.values), "it is missing or empty, and values in it were acknowledged")
	}
	if newest == nil {
		return nil
	}
	refs = slices.DeleteFunc(refs, func(p pointer) bool { return uint64(p.file) != newest.id })
	return WithFile(n.dir, newest.name, func(data []byte) error {
		file, err := n.openLog(newest.name, data)
		if err != nil {
			return err
		}
		return file.inspectValues(refs, n.Head)
	})
}

// checkRest checks the two files of Badger that contain no data of the store: the key registry and DISCARD. It
// adds faulty ones to unborn, so that DropUnborn removes them, and Badger creates them again. A registry that
// may contain keys is kept.
func (n *inspection) checkRest() error {
	if n.keys.isEmpty() {
		n.unborn = append(n.unborn, RegistryName)
	}
	if !n.files["DISCARD"] {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(n.dir, "DISCARD"))
	if err == nil && !soundDiscard(data) {
		n.unborn = append(n.unborn, "DISCARD")
	}
	return err
}

// soundDiscard reports whether the file DISCARD is valid. It contains numbers of value logs in
// ascending order with their dead bytes, up to the first zero. Badger uses the file as an array without
// checking its size.
func soundDiscard(data []byte) bool {
	if len(data) < 1<<20 || len(data)%16 != 0 {
		return false
	}
	last := uint64(0)
	for at := 0; at < len(data); at += 16 {
		id, dead := binary.BigEndian.Uint64(data[at:]), binary.BigEndian.Uint64(data[at+8:])
		if id == 0 {
			return true
		}
		if id <= last || id > math.MaxUint32 || dead > 1<<40 {
			return false
		}
		last = id
	}
	return true
}
