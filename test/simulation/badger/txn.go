package badger

import (
	"bytes"
	"maps"
	"slices"
	"sort"

	"github.com/pawl-dev/pawl/test/simulation/disk"
)

// Txn is a transaction that reads at one timestamp and sees its own writes.
type Txn struct {
	db *DB
	ts uint64
	// pending are the writes of the transaction. It is nil for a read-only transaction.
	pending map[string]disk.Op
}

// ReadTs is what it reads at.
func (t *Txn) ReadTs() uint64 { return t.ts } //nolint:staticcheck // Badger's name

// Discard ends it.
func (t *Txn) Discard() {}

// Set writes a key at the commit. After the call the transaction owns key and value.
func (t *Txn) Set(key, value []byte) error {
	t.pending[string(key)] = disk.Op{Key: key, Value: value}
	return nil
}

// Delete removes when it is committed.
func (t *Txn) Delete(key []byte) error {
	t.pending[string(key)] = disk.Op{Key: key, Delete: true}
	return nil
}

// Get finds a key; ErrKeyNotFound.
func (t *Txn) Get(key []byte) (*Item, error) {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	item := t.at(string(key))
	if item == nil {
		return nil, ErrKeyNotFound
	}
	return item, nil
}

// at returns what the transaction sees under a key, or nil if there is nothing.
func (t *Txn) at(key string) *Item {
	if op, ok := t.pending[key]; ok {
		return itemOf(key, version{ts: t.ts, value: op.Value, gone: op.Delete})
	}
	versions := t.db.rows[key]
	for i := range slices.Backward(versions) {
		if versions[i].ts <= t.ts {
			return itemOf(key, versions[i])
		}
	}
	return nil
}

func itemOf(key string, v version) *Item {
	if v.gone {
		return nil
	}
	return &Item{key: []byte(key), value: v.value, version: v.ts}
}

// CommitAt stores the transaction at a timestamp. It calls done when the transaction is synced. Without
// done, it waits for the sync.
func (t *Txn) CommitAt(ts uint64, done func(error)) error {
	g := &disk.Group{TS: ts}
	for _, key := range slices.Sorted(maps.Keys(t.pending)) {
		op := t.pending[key]
		g.Ops = append(g.Ops, disk.Op{Key: []byte(key), Value: bytes.Clone(op.Value), Delete: op.Delete})
	}
	store := func() error {
		err := t.db.disk.Append(t.db.life, g, t.db.sync)
		if err == nil {
			t.db.apply(g)
		}
		return err
	}
	if done == nil {
		return store()
	}
	go func() { done(store()) }()
	return nil
}

// apply makes a group visible.
func (db *DB) apply(g *disk.Group) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.newest = max(db.newest, g.TS)
	for i := range g.Ops {
		op := &g.Ops[i]
		key := string(op.Key)
		versions, known := db.rows[key]
		if !known {
			at := sort.SearchStrings(db.keys, key)
			db.keys = slices.Insert(db.keys, at, key)
		}
		db.rows[key] = append(versions, version{ts: g.TS, value: op.Value, gone: op.Delete})
	}
}

// Item is a key with its value.
type Item struct {
	key, value []byte
	version    uint64
}

// Version is the timestamp of the commit. For the transaction's own writes it is the timestamp at which
// the transaction reads.
func (i *Item) Version() uint64 { return i.version }

// Key is valid until the iterator moves.
func (i *Item) Key() []byte { return i.key }

// KeyCopy appends to nothing.
func (i *Item) KeyCopy(dst []byte) []byte { return append(dst[:0], i.key...) }

// Value shows the value.
func (i *Item) Value(read func([]byte) error) error { return read(i.value) }

// ValueCopy copies the value.
func (i *Item) ValueCopy(dst []byte) ([]byte, error) { return append(dst[:0], i.value...), nil }

// IsDeletedOrExpired is never so: what is deleted is not visited.
func (i *Item) IsDeletedOrExpired() bool { return false }

// ValueSize is the value's length.
func (i *Item) ValueSize() int64 { return int64(len(i.value)) }

// KeySize is the key's length.
func (i *Item) KeySize() int64 { return int64(len(i.key)) }

// EstimatedSize is that of key and value.
func (i *Item) EstimatedSize() int64 { return int64(len(i.key) + len(i.value)) }
