package kv

import "errors"

// KV keeps key-value pairs in the byte order of their keys. One writer stores them in groups with
// consecutive numbers. A group is stored whole or not at all. Any number of goroutines open and read
// views. Only one goroutine at a time uses each view.
//
// Engines themselves limit the time of their calls. No method has a context, because a commit that the
// storage engine has received continues even if its caller has stopped waiting, and a view exists only
// for one answer.
//
// A later version may have partitions, each with one writer that the next writer fences. Two things
// would change: a [Batch] would contain the partition of each pair, and a [Result] would name the
// stored and the fenced partitions. A KV would then belong to one node. Groups and their numbers would
// not change.
type KV interface {
	// LastKey returns the number of the newest stored commit group, or 0 if there is none. It may be
	// called only while no commit is running.
	LastKey() uint64
	// Bounds returns the limits of one group of commits, which never change.
	Bounds() Bounds
	// View returns a snapshot of the stored commit group with the given number or of a later group. It
	// shows whole groups and returns the number of the newest one. The group must not be older than a
	// group that was released.
	View(group uint64) Snapshot
	// Hold keeps the given commit group or a later one readable until the result is closed. All views
	// of the result show the same group.
	Hold(group uint64) (HeldGroup, error)
	// Batch begins the next commit group. A batch that is not committed needs no cleanup.
	Batch() Batch
	// Release drops values that were superseded by commit groups up to the given one. No view of an
	// older group may be open or requested later, except the views of a [HeldGroup].
	Release(group uint64)
	// Close closes the storage engine. No view may be open, and no commit may be running.
	Close() error
}

// Bounds are the limits of one commit group. The writer must respect them.
type Bounds struct {
	// Keys is the maximum number of keys that a commit group sets and deletes. Key is the maximum size
	// of a key in bytes.
	Keys, Key int
	// Bytes is the maximum size of a commit group's keys and values, in bytes. Each pair counts
	// [PairBytes] in addition to its bytes.
	Bytes int64
	// Apart is the size from which a value is stored separately, in bytes. A separate value counts only
	// [PairBytes] in Bytes. If Apart is 0, no value is stored separately.
	Apart int64
}

// PairBytes is the number of bytes that each pair of a commit group counts in addition to its key and
// value.
const PairBytes = 12

// Snapshot shows the pairs after one group of commits. The store reads it through a [View].
type Snapshot interface {
	// Group returns the number of the newest commit group that the snapshot shows.
	Group() uint64
	// Get returns the value of a key. It returns nil if the key does not exist. The caller may change
	// the value. Errors: [ErrLost].
	Get(key []byte) ([]byte, error)
	// Has reports whether a key exists. It does not read the value.
	Has(key []byte) (bool, error)
	// Scan returns a cursor without a position. The caller must first call Seek.
	Scan(r Range) Cursor
	// Close closes the snapshot. The cursors of the snapshot must be closed before.
	Close()
}

// Counter is a [Snapshot] of a storage engine that can count keys more cheaply than it can return them.
type Counter interface {
	// Count counts at most most keys of one kind that begin with prefix. It begins after the key
	// behind, or with the first key if behind is nil. last is the key at which it stopped, or nil if it
	// reached the end.
	Count(prefix, behind []byte, most int) (n int, last []byte, err error)
}

// Range is the range of keys that a cursor visits.
type Range struct {
	// Prefix is the beginning of all keys in the range.
	Prefix []byte
	// Reverse makes the cursor move backwards, from the key of Seek towards the first key.
	Reverse bool
	// KeysOnly means that the caller reads no values. It may still read their sizes.
	KeysOnly bool
	// Since is the number of a commit group. The range excludes pairs that were set by this group or an
	// earlier one.
	Since uint64
}

// Cursor visits the keys of a range in order. If Seek or Next returns an error, a read has failed, and
// the cursor no longer has a position.
type Cursor interface {
	// Seek moves to the first key of the range at or after the given key, in the direction of the
	// cursor. The key must begin with the range's prefix. nil means the first key. A reverse cursor
	// needs a key that is not nil.
	Seek(key []byte) error
	// Next moves to the next key. The cursor must be at a key.
	Next() error
	// Valid reports whether the cursor is at a key of the range.
	Valid() bool
	// Key returns the current key. It is valid until the next move.
	Key() []byte
	// Value returns the current value, which is valid until the next call of the cursor. It is memory
	// of the storage engine or of buf, which may be nil. grown is buf, enlarged if necessary. Errors:
	// [ErrLost].
	Value(buf []byte) (value, grown []byte, err error)
	// ValueCopy returns a copy of the current value, which the caller may change. If the error is nil,
	// the copy is not nil. Errors: [ErrLost].
	ValueCopy() ([]byte, error)
	// Size returns the approximate size of the value in bytes. StoredSize returns the disk space of the
	// pair in bytes.
	Size() int64
	StoredSize() int64
	// Group returns the number of the commit group that set the pair.
	Group() uint64
	// Close closes the cursor.
	Close()
}

// HeldGroup is one group of commits that stays readable until Close is called.
type HeldGroup interface {
	Group() uint64
	View() Snapshot
	Close()
}

// Batch collects the pairs of one commit group. If a key is set or deleted several times, the last call
// applies. After a call the batch owns the key and the value. Views do not show the pairs of a batch
// that is not committed.
type Batch interface {
	Set(key, value []byte)
	Delete(key []byte)
	// Commit stores the batch as the commit group with the given number, which must be [KV.LastKey] + 1. It calls
	// done once, from any goroutine, when the outcome is known. A stored group survives every crash, on as many
	// machines as the storage engine guarantees.
	Commit(group uint64, done func(Result))
}

// Result is the result of a commit.
type Result struct {
	Outcome Outcome
	// Err is the reason why the commit group is not stored, or nil if it is stored.
	Err error
}

// Outcome is the result of a commit. Its zero value means that the outcome is unknown.
type Outcome uint8

// These are the outcomes of a commit. After any outcome other than Stored, the store accepts no more
// writes. When the store is opened again, it continues from the groups that the storage engine then
// contains.
const (
	// Unknown means that the commit group may be stored, or may still be stored later.
	Unknown Outcome = iota
	// Stored means that the whole commit group is durably stored.
	Stored
	// NotStored means that no part of the commit group is stored, and that none will be stored later.
	NotStored
)

// ErrLost means that a value is missing or has changed although its key exists. Other values can still
// be read.
var ErrLost = errors.New("the value is missing or fails its checksum")
