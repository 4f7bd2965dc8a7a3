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
	// log are the groups of the database in the order of their commits; those from
	// synced on are lost with the power.
	log    []*Group
	synced int
	// settled and answered say up to which group the store knows that it is synced, and
	// up to which its callers were answered.
	settled, answered int
	// life counts crashes; handles of an earlier life reach nothing.
	life   int
	locked bool

	// Faults, set by the simulator at any time.
	faults Faults
}

// Faults are how a disk is beside itself.
type Faults struct {
	// Free is the room in bytes that a look at the file system finds.
	Free int64
	// Sync is how long one takes.
	Sync time.Duration
	// SyncFails: the next sync of the database is an error. What it was to sync is on
	// disk, or is not.
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

// file has what a reader sees, and what a loss of power leaves. Nothing is told of synced
// names: a rename is synced with its directory by who needs it.
type file struct {
	data, synced []byte
	// unlinked: no name leads to it any more.
	unlinked bool
}

// disks are those of this process by directory: the store knows only a name.
var disks sync.Map

// New makes an empty disk under a directory's name, in place of an earlier one.
func New(dir string) *Disk {
	d := &Disk{files: map[string]*file{}, faults: Faults{Free: 1 << 40}}
	disks.Store(dir, d)
	return d
}

// Forget takes a disk away at the end of a simulation.
func Forget(dir string) { disks.Delete(dir) }

// At is the disk with a directory's name; nil: there is none.
func At(dir string) *Disk {
	d, _ := disks.Load(dir)
	found, _ := d.(*Disk)
	return found
}

// Of is the disk of a path and the path's name on it; nil: there is none.
func Of(path string) (d *Disk, name string) {
	if d := At(path); d != nil {
		return d, ""
	}
	return At(filepath.Dir(path)), filepath.Base(path)
}

// Above reports whether a directory has disks in it. It is there, and nothing in it is lost.
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

// Crash ends a life. The death of the process alone leaves all that was written; with the
// power goes what was not synced, or a part of it, as dice fall.
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

// unborn leaves a file of the database that was being born: its name is there, its bytes are
// not. Badger refuses to open such a directory.
func (d *Disk) unborn(dice *rand.Rand) {
	if name := []string{"", "", "", "00007.mem", "000007.vlog"}[dice.IntN(5)]; name != "" && d.files[name] == nil {
		d.files[name] = &file{}
	}
}

// Settled notes that the store knows of the sync of its last group.
func (d *Disk) Settled() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settled = d.synced
}

// Answered notes that the callers of the group that settled last were answered.
func (d *Disk) Answered() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answered = d.settled
}

// Rot takes away the last group whose callers were answered, if there is one, and what came
// after it; heal gives all back.
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

// sector is what a disk writes whole.
const sector = 512

// tear leaves each sector as it was synced or as it was written.
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

// Image copies the log: all groups that a reader of this life could see.
func (d *Disk) Image() []*Group {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]*Group(nil), d.log...)
}

// Open is Image for a database that is opened: like Badger, which cuts its log to what it
// could read and syncs it for that, it leaves nothing unsynced.
func (d *Disk) Open() []*Group {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.synced = len(d.log)
	return append([]*Group(nil), d.log...)
}

func (d *Disk) names() []string { return sortedKeys(maps.Keys(d.files)) }
