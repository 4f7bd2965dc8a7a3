package store

import (
	"bytes"
	"fmt"
	"iter"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// These are the limits of a group. They also limit a batch, because a batch is never split.
const (
	maxGroupBytes = 8 << 20
	maxGroupKeys  = 50_000
)

// size is the size of a batch or of a group. bytes is the number of all bytes. inTree is the number of
// bytes that count against the engine's limit; large values may be stored separately and are not
// counted. keys is the number of keys.
type size struct {
	bytes, inTree int64
	keys          int
}

func (a size) plus(b size) size {
	return size{bytes: a.bytes + b.bytes, inTree: a.inTree + b.inTree, keys: a.keys + b.keys}
}

// boundsOf returns the bounds of the engine. If a bound of the store is lower, it replaces the engine's
// bound.
func boundsOf(e kv.KV) kv.Bounds {
	b := e.Bounds()
	b.Keys, b.Key = min(b.Keys, maxGroupKeys), min(b.Key, layout.MaxKey)
	return b
}

// fits reports whether the engine can take this size in one group.
func (s *Store) fits(z size) bool {
	return z.bytes <= maxGroupBytes && z.keys <= s.bounds.Keys && z.inTree <= s.bounds.Bytes
}

// measure computes the size of a batch. It is called once, before the committer receives the batch.
func (s *Store) measure(w *Writes) size {
	z := size{keys: len(w.ops)}
	if w.entry >= 0 {
		// This counts the batch's part of the row of cursors, and the row itself for the case that the
		// batch is alone in its group.
		z.keys++
		z.inTree += int64(len(w.runID)) + 64
	}
	for i := range w.ops {
		key, value := int64(len(w.ops[i].Key)), w.ops[i].ValueBytes()
		z.bytes += key + value
		if apart := s.bounds.Apart; apart > 0 && value >= apart {
			value = kv.PairBytes
		}
		z.inTree += key + value + kv.PairBytes
		if layout.Kinds[w.ops[i].Key[0]].Queue != nil {
			// Each row of a queue may add a watermark.
			z.keys++
			z.inTree += 32
		}
	}
	return z
}

// checkSize returns an error if a batch is too large even for a group of its own, or if one of its keys
// is too long for the engine.
func (s *Store) checkSize(w *Writes) error {
	for i := range w.ops {
		if key := w.ops[i].Key; len(key) > s.bounds.Key {
			return &machine.Error{
				Code: machine.CodeInvalidArgument, Reason: "NAME_TOO_LONG", Field: layout.NameField(key[0]),
				Message: fmt.Sprintf("names that make a key of %d bytes; at most %d", len(key), s.bounds.Key),
				Limit:   int64(s.bounds.Key), Got: int64(len(key)),
			}
		}
	}
	w.size = s.measure(w)
	z := w.size
	if s.fits(z) {
		return nil
	}
	limit, got := int64(maxGroupBytes), z.bytes
	switch {
	case z.keys > s.bounds.Keys:
		limit, got = int64(s.bounds.Keys), int64(z.keys)
	case z.bytes <= maxGroupBytes:
		limit, got = s.bounds.Bytes, z.inTree
	}
	return &machine.Error{
		Code: machine.CodeResourceExhausted, Reason: "BATCH_TOO_LARGE",
		Message: fmt.Sprintf("one commit of %d bytes and %d keys; at most %d bytes and %d keys", z.bytes, z.keys, int64(maxGroupBytes), s.bounds.Keys),
		Limit:   limit, Got: got,
	}
}

// request is one batch that waits for the committer's answer.
type request struct {
	w    *Writes
	done chan error
}

type refusal struct {
	r   *request
	err error
}

// group is a group that the committer collects.
type group struct {
	// txn reads the group ts, which is the last synced group. It is nil before the first request and
	// after the group was sent. batch collects the writes. txn does not show them.
	txn      *layout.Txn
	ts       uint64
	batch    kv.Batch
	requests []*request
	// refused are batches with a failed precondition. They are answered together with the group,
	// because the writes that they conflict with must be visible first.
	refused []refusal
	size    size
	// guarded maps the keys that preconditions may read to the values that the group sets for them.
	guarded map[string][]byte
	// cursorRows are the values of the group's rows of cursors for each namespace. A value contains the
	// entries of the group in the order of their cursors.
	cursorRows map[uint32][]byte
	number     uint64
	// rows counts the rows that were set.
	rows int
}

func (g *group) info() Group {
	return Group{Number: g.number, Batches: len(g.requests), Keys: g.rows, Bytes: g.size.bytes}
}

// checkPreconditions checks a batch's preconditions against the store and all earlier batches, and adds
// the batch to the group. If there is an error, it concerns only this batch, and none of its rows is
// set.
func (c *committer) checkPreconditions(g *group, r *request) error {
	if err := c.checkSeq(g, r.w); err != nil {
		return err
	}
	for i := range r.w.expects {
		e := &r.w.expects[i]
		if err := layout.Guard(e.key); err != nil {
			return err
		}
		if e.value == nil && e.key[0] == layout.KindRunID && c.knownIDs.absent(r.w.run, e.key) {
			continue
		}
		value, err := c.lookup(g, e.key)
		if err != nil {
			return err
		}
		if !e.holds(value) {
			return e.err
		}
	}
	if err := c.checkUnreferred(g, r.w.requireNoRefs); err != nil {
		return err
	}
	if err := c.read(g, r.w); err != nil {
		return err
	}
	return c.addToGroup(g, r)
}

func (e *expect) holds(value []byte) bool {
	if e.predicate != nil {
		return e.predicate(value)
	}
	return (value == nil) == (e.value == nil) && bytes.Equal(value, e.value)
}

func (c *committer) checkSeq(g *group, w *Writes) error {
	if w.run == nil {
		return nil
	}
	last, known := c.recentSeqs.last(w.run)
	if !known {
		var err error
		if last, err = layout.LastSeq(g.txn, w.run); err != nil {
			return err
		}
	}
	if last != w.prev {
		return fmt.Errorf("%w: it is %d, the batch follows %d", machine.ErrSeqConflict, last, w.prev)
	}
	return nil
}

// lookup reads the value that a key of a precondition will have after the earlier groups are stored.
func (c *committer) lookup(g *group, key []byte) ([]byte, error) {
	if v, ok := g.guarded[string(key)]; ok {
		return v, nil
	}
	if v, ok := c.sentGuarded[string(key)]; ok {
		return v, nil
	}
	return layout.Get(g.txn, key)
}

// read reads the values from which ops of the batch compute their own values. It runs before any row is
// set, so that a failed read concerns only this batch.
func (c *committer) read(g *group, w *Writes) error {
	for i := range w.ops {
		if !w.ops[i].Merges() {
			continue
		}
		stored, err := c.lookup(g, w.ops[i].Key)
		if err != nil {
			return err
		}
		g.guarded[string(w.ops[i].Key)] = stored
	}
	return nil
}

// addToGroup assigns a cursor to the batch and sets its keys.
func (c *committer) addToGroup(g *group, r *request) error {
	w := r.w
	if w.entry >= 0 {
		w.cursor = c.cursors[w.ns] + 1
		codec.SetCursor(w.ops[w.entry].Value, w.cursor)
		c.cursors[w.ns] = w.cursor
		g.cursorRows[w.ns] = codec.AppendEntryRef(g.cursorRows[w.ns], w.runID, w.prev+1)
	}
	for i := range w.ops {
		if err := c.setRow(g, &w.ops[i]); err != nil {
			return c.markFailed(err)
		}
	}
	if w.flushWatermarks {
		for _, op := range c.watermarks.moved() {
			g.set(&op)
		}
	}
	if w.run != nil {
		c.recentSeqs.put(w.run, w.last)
		c.knownIDs.note(w)
	}
	g.requests = append(g.requests, r)
	g.size = g.size.plus(w.size)
	return nil
}

// setRow sets a key. If the row is due before its queue's watermark, setRow lowers the
// watermark in the same group.
func (c *committer) setRow(g *group, op *layout.Op) error {
	if err := op.Merge(func(key []byte) ([]byte, error) { return c.lookup(g, key) }); err != nil {
		return err
	}
	if queue := layout.Kinds[op.Key[0]].Queue; queue != nil && !op.Delete {
		if lowered := c.watermarks.set(queue(op.Key)); lowered != nil {
			g.set(lowered)
		}
	}
	g.set(op)
	return nil
}

// addCursorRows adds the rows of cursors. There is one row for each namespace, with the last cursor of
// the group as its key. The rows are never deleted, so that tables and logs show with which group they
// end. A group without entries gets a special row for this purpose.
func (c *committer) addCursorRows(g *group) {
	if len(g.cursorRows) == 0 {
		g.set(&layout.Op{Key: layout.GroupKey, Value: layout.Number(nil, c.ts)})
	}
	for ns, places := range g.cursorRows {
		g.set(&layout.Op{Key: layout.CursorKey(make([]byte, 0, 13), ns, c.cursors[ns]), Value: places})
	}
}

func (g *group) set(op *layout.Op) {
	g.rows++
	if layout.Kinds[op.Key[0]].Guarded {
		g.guarded[string(op.Key)] = op.Value
	}
	if op.Delete {
		g.batch.Delete(op.Key)
		return
	}
	g.batch.Set(op.Key, op.Value)
}

// recentSeqs caches the last seq of runs that were written recently, so that most preconditions do not
// need a read of the store. It has two generations. It always includes the group being collected and
// the group being synced. An LRU cache could not guarantee this.
type recentSeqs struct {
	now, before map[string]uint64
}

const recentRuns = 8192

func (r *recentSeqs) last(run []byte) (uint64, bool) {
	if seq, ok := r.now[string(run)]; ok {
		return seq, true
	}
	seq, ok := r.before[string(run)]
	return seq, ok
}

func (r *recentSeqs) put(run []byte, seq uint64) { r.now[string(run)] = seq }

// turn is called after a group was sent. It may drop the older generation.
func (r *recentSeqs) turn() {
	if len(r.now) >= recentRuns {
		r.now, r.before = make(map[string]uint64, recentRuns), r.now
	}
}

// holdsApart reports whether the group has a value of at least the size above which values are stored
// separately. If size is 0, no value is stored separately.
func (g *group) holdsApart(size int64) bool {
	if size == 0 || g.size.bytes < size {
		return false
	}
	for _, places := range g.cursorRows {
		if int64(len(places)) >= size {
			return true
		}
	}
	for _, r := range g.requests {
		for i := range r.w.ops {
			if int64(len(r.w.ops[i].Value)) >= size {
				return true
			}
		}
	}
	return false
}

// last returns the group's last entry. It returns nil if the group has no entries.
func (g *group) last() *layout.LastEntry {
	for _, r := range slices.Backward(g.requests) {
		if w := r.w; w.entry >= 0 {
			return &layout.LastEntry{Ns: w.ns, Cursor: w.cursor, Hash: w.hash}
		}
	}
	return nil
}

// ops returns all rows that the group stores, except its cursors and watermarks.
func (g *group) ops() iter.Seq[*layout.Op] {
	return func(yield func(*layout.Op) bool) {
		for _, r := range g.requests {
			for i := range r.w.ops {
				if !yield(&r.w.ops[i]) {
					return
				}
			}
		}
	}
}
