package disk

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"
)

// Disk is one directory of a simulated machine. Safe for concurrent use.
type Disk struct {
	mu    sync.Mutex
	files map[string]*file
	// log are the groups of the database in the order of their commits. The groups from synced on are
	// lost at a power failure.
	log    []*Group
	synced int
	// settled is the number of groups whose sync the store knows. answered is the number of groups
	// whose callers were answered.
	settled, answered int
	// life counts the crashes. A handle of an earlier life changes nothing.
	life   int
	locked bool

	// Faults, set by the simulator at any time.
	faults Faults
}

// Faults are the faults of a disk.
type Faults struct {
	// Free is the free space in bytes that the file system reports.
	Free int64
	// Sync is how long one takes.
	Sync time.Duration
	// SyncFails means that the next sync of the database returns an error. The data may be on disk or
	// not.
	SyncFails bool
}

// Group is one commit of the database.
type Group struct {
	TS  uint64
	Ops []Op
}

// Op sets a key, or deletes it.
type Op struct {
	Key, Value []byte
	Delete     bool
}

// file has the content that a reader sees, and the content after a power failure. Names need no sync:
// the code that renames a file syncs its directory.
type file struct {
	data, synced []byte
	// unlinked means that the file has no name any more.
	unlinked bool
}

// disks are the disks of this process by their directories, because the store knows only a name.
var disks sync.Map

// New makes an empty disk for a directory. It replaces an earlier disk.
func New(dir string) *Disk {
	d := &Disk{files: map[string]*file{}, faults: Faults{Free: 1 << 40}}
	disks.Store(dir, d)
	return d
}

// Forget takes a disk away at the end of a simulation.
func Forget(dir string) { disks.Delete(dir) }

// At returns the disk of a directory, or nil if there is none.
func At(dir string) *Disk {
	d, _ := disks.Load(dir)
	found, _ := d.(*Disk)
	return found
}

// Of returns the disk of a path and the path's name on this disk, or nil if there is no such disk.
func Of(path string) (d *Disk, name string) {
	if d := At(path); d != nil {
		return d, ""
	}
	return At(filepath.Dir(path)), filepath.Base(path)
}

// Above reports whether a directory contains disks. Such a directory exists and loses nothing.
func Above(path string) (found bool) {
	disks.Range(func(dir, _ any) bool {
		found = found || filepath.Dir(dir.(string)) == path
		return !found
	})
	return found
}

// SetFaults says how the disk is from now on.
func (d *Disk) SetFaults(set func(f *Faults)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	set(&d.faults)
}

// Free is the room on the file system, as store.Options take it.
func Free(dir string) (int64, error) {
	d := At(dir)
	if d == nil {
		return 0, fmt.Errorf("no disk %q", dir)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.faults.Free, nil
}

// Life is the present one.
func (d *Disk) Life() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.life
}

// Crash ends a life of the disk. If only the process dies, everything that was written stays. At a
// power failure, unsynced data is lost, all of it or a part that dice choose.
func (d *Disk) Crash(power bool, dice *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.life++
	d.locked = false
	d.faults = Faults{Free: d.faults.Free, Sync: d.faults.Sync}
	if !power {
		return
	}
	d.unborn(dice)
	d.log = d.log[:d.synced+dice.IntN(len(d.log)-d.synced+1)]
	d.synced = len(d.log)
	for _, name := range d.names() {
		f := d.files[name]
		if bytes.Equal(f.data, f.synced) {
			continue
		}
		left := tear(f.synced, f.data, dice)
		d.files[name] = &file{data: left, synced: bytes.Clone(left)}
	}
}

// unborn leaves a new file of the database with its name but without its bytes. Badger refuses to open
// such a directory.
func (d *Disk) unborn(dice *rand.Rand) {
	if name := []string{"", "", "", "00007.mem", "000007.vlog"}[dice.IntN(5)]; name != "" && d.files[name] == nil {
		d.files[name] = &file{}
	}
}

// Settled records that the store knows that its last group is synced.
func (d *Disk) Settled() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settled = d.synced
}

// Answered records that the callers of the last settled group were answered.
func (d *Disk) Answered() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answered = d.settled
}

// Rot removes the last group whose callers were answered, if there is one, and all later groups. heal
// restores them.
func (d *Disk) Rot() (heal func(), lost bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	log, synced, left := d.log, d.synced, d.answered-1
	if left < 1 {
		return func() {}, false
	}
	d.log, d.synced = log[:left:left], left
	files := maps.Clone(d.files)
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.log, d.synced, d.files, d.locked = log, synced, files, false
	}, true
}

// sector is the number of bytes that a disk writes as a whole.
const sector = 512

// tear returns a content in which each sector is either the synced or the written one.
func tear(synced, written []byte, dice *rand.Rand) []byte {
	left := bytes.Clone(synced)
	if len(written) > len(left) {
		left = append(left, make([]byte, len(written)-len(left))...)
	}
	for at := 0; at < len(written); at += sector {
		if dice.IntN(2) == 0 {
			copy(left[at:min(at+sector, len(left))], written[at:])
		}
	}
	return left
}

// Image copies the log: all groups that a reader of this life can see.
func (d *Disk) Image() []*Group {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]*Group(nil), d.log...)
}

// Open is like Image, for a database that is opened. As Badger does, it truncates the log to the
// readable part and syncs it, so that nothing is unsynced afterwards.
func (d *Disk) Open() []*Group {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.synced = len(d.log)
	return append([]*Group(nil), d.log...)
}

func (d *Disk) names() []string { return sortedKeys(maps.Keys(d.files)) }
