package kv

import "errors"

// KV keeps pairs in the byte order of their keys. One writer stores them, in groups with
// numbers that rise by one: a group is stored whole or not at all. Any number of goroutines
// open and read views; one goroutine at a time uses each view.
//
// Engines limit the time of their calls themselves. No method takes a context, because a commit
// that was handed over goes on even if its caller gave up, and a view lasts only for one
// answer.
//
// Partitions, with one writer each that the next writer fences, will change two places: a [Batch]
// gets the partition of each pair, and a [Result] names the stored and the fenced partitions. A
// KV is then that of one node. Groups and their numbers stay as they are.
type KV interface {
	// Last is the number of the newest group that is stored, 0 = none is. It is asked while no
	// commit is under way.
	Last() uint64
	// Bounds are those of one group. They do not change.
	Bounds() Bounds
	// View shows what there is as of a group that is stored, or of a later one, whole: which
	// one, the view says. No view is asked for below a group that was let go of.
	View(group uint64) Snapshot
	// Hold keeps what there is at a group that is stored, or at a later one, until it is
	// closed: however many views are made of it, all show that one group.
	Hold(group uint64) (Held, error)
	// Batch begins the next group. A batch that is not committed needs no cleanup.
	Batch() Batch
	// Release lets go of what later groups superseded: no view is open or will be asked for
	// below the group, but those of a [Held].
	Release(group uint64)
	// Close ends it; no view is open and no commit is under way.
	Close() error
}

// Bounds of one group. The writer keeps to them.
type Bounds struct {
	// Keys is how many keys a group sets and removes, Key how many bytes one has.
	Keys, Key int
	// Bytes of a group's keys and values, where each pair counts [PairBytes] besides.
	Bytes int64
	// Apart is the size from which a value lies apart and counts as [PairBytes] in Bytes;
	// 0: none does.
	Apart int64
}

// PairBytes is what a pair counts besides its bytes.
const PairBytes = 12

// Snapshot is what an engine shows of one group; the store reads it through a [View].
type Snapshot interface {
	// Group returns the newest group that the view shows.
	Group() uint64
	// Get reads a value, which then belongs to the caller; nil: the key does not exist.
	// [ErrLost].
	Get(key []byte) ([]byte, error)
	// Has looks for a key without its value.
	Has(key []byte) (bool, error)
	// Scan makes a cursor that stands nowhere yet.
	Scan(r Range) Cursor
	// Close ends it and lets its cursors go, which are closed before.
	Close()
}

// Counter is a [Snapshot] of an engine that counts keys where they lie, for less than it shows
// them.
type Counter interface {
	// Count counts the keys of one kind that begin with a prefix, behind one of them or, nil, from
	// the first on: at most so many, and last is then the one at which it stands; nil: at the end.
	Count(prefix, behind []byte, most int) (n int, last []byte, err error)
}

// Range is what a cursor goes through.
type Range struct {
	// Prefix that all keys begin with.
	Prefix []byte
	// Reverse: from a key that is sought to the first one.
	Reverse bool
	// KeysOnly: no value is asked for. Sizes are known all the same.
	KeysOnly bool
	// Since leaves out pairs that were set by that group or an earlier one.
	Since uint64
}

// Cursor goes through the keys of a range. An error of a move is that of a read: it then
// stands nowhere.
type Cursor interface {
	// Seek goes to the first key of the range at or behind the given one, in its direction,
	// which begins with the range's prefix; nil, which no reverse one is given: to the first.
	Seek(key []byte) error
	// Next goes to the next key. It stands at one.
	Next() error
	// Valid: it stands at a key of the range.
	Valid() bool
	// Key is good until the next move.
	Key() []byte
	// Value shows the value, until the next move or call: in memory of the engine, or in buf,
	// which may be nil and is given back, grown where need be. [ErrLost].
	Value(buf []byte) (value, grown []byte, err error)
	// ValueCopy is the caller's; never nil without an error. [ErrLost].
	ValueCopy() ([]byte, error)
	// Size returns the approximate size of the value, Room the storage that the pair takes.
	Size() int64
	StoredSize() int64
	// Group is the one that set the pair.
	Group() uint64
	// Close ends it.
	Close()
}

// Held is one moment that stays readable.
type Held interface {
	Group() uint64
	View() Snapshot
	Close()
}

// Batch collects the pairs of one group: the last of several calls for a key counts. Keys and
// values belong to the batch from the call on. Views do not show its contents.
type Batch interface {
	Set(key, value []byte)
	Delete(key []byte)
	// Commit stores what was collected under the number of the group, which is the one after
	// [KV.Last], and calls back once, from any goroutine, when the outcome is known: stored
	// is what no crash takes away, on as many machines as the engine promises.
	Commit(group uint64, done func(Result))
}

// Result is what became of a commit.
type Result struct {
	Outcome Outcome
	// Err says why it is not stored; nil if it is.
	Err error
}

// Outcome is the result of a commit. Its zero value means that the outcome is unknown.
type Outcome uint8

// The outcomes. The store takes no more writes after another one than Stored: it goes on
// from what the engine has when it is opened again.
const (
	// Unknown: the group may be stored, or may be later.
	Unknown Outcome = iota
	// Stored: whole and for good.
	Stored
	// NotStored: no part of the group is stored, now or later.
	NotStored
)

// ErrLost means that a value is missing or has changed, although its key exists. It concerns
// that value alone: the caller may read on.
var ErrLost = errors.New("the value is missing or fails its checksum")
