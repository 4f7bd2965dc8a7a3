package memkv

import (
	"fmt"
	"sync"

	"github.com/tidwall/btree"

	"github.com/pawl-dev/pawl/internal/store/kv"
)

// DB is a database in memory. It may be used again after Close, see [DB.Reopen].
type DB struct {
	mu sync.Mutex
	// tree contains the stored pairs. published is a copy of tree that never changes, for readers.
	tree, published *tree
	last            uint64
	released        uint64
	closed          bool
}

// tree is a map that can be copied at no cost. Two copies share their parts, and a part is copied only
// when one of them changes it.
type tree = btree.Map[string, pair]

// pair is a value and the number of the commit group that set it.
type pair struct {
	value []byte
	group uint64
}

var _ kv.KV = (*DB)(nil)

// New returns an empty database.
func New() *DB { return &DB{tree: new(tree), published: new(tree)} }

// Reopen makes a closed database usable again.
func (d *DB) Reopen() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = false
}

// Clone returns a closed database with the same pairs, as a crash at this moment would leave them.
func (d *DB) Clone() *DB {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &DB{tree: d.tree.Copy(), published: d.published, last: d.last, closed: true}
}

// LastKey returns the number of the newest group.
func (d *DB) LastKey() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// bounds limit the size of a commit group. They are approximately the limits of Badger with its smallest
// memtable.
var bounds = kv.Bounds{Keys: 13_000, Key: 65_000, Bytes: 5 << 20, Apart: 16 << 10}

// Bounds returns the limits that a commit checks.
func (d *DB) Bounds() kv.Bounds { return bounds }

// View returns a snapshot of the newest commit group, which may be newer than the requested one.
func (d *DB) View(group uint64) kv.Snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	if group > d.last || group < d.released || d.closed {
		panic(fmt.Sprintf("a read at group %d of %d to %d, closed: %v", group, d.released, d.last, d.closed))
	}
	return &snapshot{tree: d.published, group: d.last}
}

// Hold keeps the newest group readable.
func (d *DB) Hold(group uint64) (kv.HeldGroup, error) {
	return heldSnapshot{d.View(group).(*snapshot)}, nil
}

type heldSnapshot struct{ *snapshot }

func (h heldSnapshot) View() kv.Snapshot { return &snapshot{tree: h.tree, group: h.group} }

// Release makes View panic for commit groups older than the given one.
func (d *DB) Release(group uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.released = max(d.released, group)
}

// Close closes the database. Reopen can use its pairs afterwards.
func (d *DB) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fmt.Errorf("closed twice")
	}
	d.closed = true
	return nil
}
