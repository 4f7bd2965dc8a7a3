package kv

import "errors"

// KV keeps pairs in the byte order of their keys. One writer stores them, in groups with
// numbers that rise by one: a group is stored whole or not at all. Any number of goroutines
// open and read views; one goroutine at a time uses each view.
//
// Engines limit the time of their calls themselves. No method takes a context: a commit that was
// handed over continues even if its caller gave up, and a view lasts only for one answer.
//
// Partitions, each with one writer that the next writer fences, will change two places: a [Batch]
// will get the partition of each pair, and a [Result] will name the stored and the fenced
// partitions. A KV will then belong to one node. Groups and their numbers will not change.
type KV interface {
	// Last returns the number of the newest stored group, 0 if none is stored. Call it only while
	// no commit is running.
	Last() uint64
	// Bounds returns the limits of one group, which never change.
	Bounds() Bounds
	// View returns a snapshot of a stored group, or of a later one. The snapshot shows the whole
	// group and names it. The group must not be below one that was released.
	View(group uint64) Snapshot
	// Hold keeps one stored group readable until the result is closed. The group is the given one
	// or a later one. All views of the result show that same group.
	Hold(group uint64) (Held, error)
	// Batch begins the next group. A batch that is not committed needs no cleanup.
	Batch() Batch
	// Release drops the values that groups up to the given one superseded. No view below the group
	// may be open or requested later, except the views of a [Held].
	Release(group uint64)
	// Close closes the engine. No view may be open and no commit running.
	Close() error
}

// Bounds are the limits of one group. The writer must respect them.
type Bounds struct {
	// Keys is the maximum number of keys that a group sets and removes. Key is the maximum number
	// of bytes of a key.
	Keys, Key int
	// Bytes is the maximum size of a group's keys and values. Each pair counts [PairBytes] in
	// addition.
	Bytes int64
	// Apart is the size from which a value is stored separately. Such a value counts as [PairBytes]
	// in Bytes. If Apart is 0, no value is stored separately.
	Apart int64
}

// PairBytes is what a pair counts in addition to its bytes.
const PairBytes = 12

// Snapshot shows one group of an engine. The store reads it through a [View].
type Snapshot interface {
	// Group returns the newest group that the view shows.
	Group() uint64
	// Get returns the value of a key, or nil if the key does not exist. The value belongs to the
	// caller. Errors: [ErrLost].
	Get(key []byte) ([]byte, error)
	// Has reports whether a key exists. It does not read the value.
	Has(key []byte) (bool, error)
	// Scan returns a cursor without a position. The first call must be Seek.
	Scan(r Range) Cursor
	// Close closes the snapshot. Its cursors must be closed before.
	Close()
}

// Counter is a [Snapshot] of an engine that can count keys more cheaply than it can return them.
type Counter interface {
	// Count counts at most most keys of one kind that begin with a prefix. It begins after the key
	// behind, or with the first key if behind is nil. last is the key at which it stopped, nil if
	// it reached the end.
	Count(prefix, behind []byte, most int) (n int, last []byte, err error)
}

// Range is the range of keys that a cursor visits.
type Range struct {
	// Prefix is the beginning of all keys in the range.
	Prefix []byte
	// Reverse makes the cursor move from the key that was sought towards the first key.
	Reverse bool
	// KeysOnly means that the caller reads no values. Sizes are available nevertheless.
	KeysOnly bool
	// Since excludes pairs that were set by this group or an earlier one.
	Since uint64
}

// Cursor visits the keys of a range. If a move returns an error, a read has failed, and the cursor
// has no position any more.
type Cursor interface {
	// Seek moves to the first key of the range at or after the given one, in the direction of the
	// cursor. The key must begin with the range's prefix. nil means the first key; a reverse cursor
	// must not get nil.
	Seek(key []byte) error
	// Next moves to the next key. The cursor must be at a key.
	Next() error
	// Valid reports whether the cursor is at a key of the range.
	Valid() bool
	// Key returns the present key. It is valid until the next move.
	Key() []byte
	// Value returns the present value. It is valid until the next move or call. It is in memory of
	// the engine or in buf, which may be nil. grown is buf, enlarged if necessary. Errors:
	// [ErrLost].
	Value(buf []byte) (value, grown []byte, err error)
	// ValueCopy returns a copy of the value, which belongs to the caller. It is never nil if the
	// error is nil. Errors: [ErrLost].
	ValueCopy() ([]byte, error)
	// Size returns the approximate size of the value in bytes. StoredSize returns the bytes on disk
	// that the pair takes.
	Size() int64
	StoredSize() int64
	// Group returns the number of the group that set the pair.
	Group() uint64
	// Close closes the cursor.
	Close()
}

// Held is one group that stays readable until Close.
type Held interface {
	Group() uint64
	View() Snapshot
	Close()
}

// Batch collects the pairs of one group. If a key is set or deleted several times, the last call
// counts. Keys and values belong to the batch from the call on. Views do not show its contents.
type Batch interface {
	Set(key, value []byte)
	Delete(key []byte)
	// Commit stores the batch as the group with the given number, which must be [KV.Last] + 1. It
	// calls done once, from any goroutine, when the outcome is known. A stored group survives every
	// crash, on as many machines as the engine promises.
	Commit(group uint64, done func(Result))
}

// Result is the result of a commit.
type Result struct {
	Outcome Outcome
	// Err is the reason why the group is not stored. It is nil if the group is stored.
	Err error
}

// Outcome is the result of a commit. Its zero value means that the outcome is unknown.
type Outcome uint8

// The outcomes of a commit. After any outcome other than Stored, the store accepts no more writes.
// When it is opened again, it continues from what the engine then contains.
const (
	// Unknown means that the group may be stored now or later.
	Unknown Outcome = iota
	// Stored means that the whole group is durably stored.
	Stored
	// NotStored means that no part of the group is stored, now or later.
	NotStored
)

// ErrLost means that a value is missing or has changed, although its key exists. It concerns
// that value alone: the caller may read on.
var ErrLost = errors.New("the value is missing or fails its checksum")
