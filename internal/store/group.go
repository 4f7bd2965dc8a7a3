package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// These are the limits of a commit group, which contains the batches that are committed together. They
// also limit a single batch, because a batch is never split.
const (
	maxGroupBytes = 8 << 20
	maxGroupKeys  = 50_000
)

// size is the size of a batch or of a commit group. bytes is the number of all bytes. inTree is the
// number of bytes that count against the storage engine's limit, without large values that the engine
// stores separately. keys is the number of keys.
type size struct {
	bytes, inTree int64
	keys          int
}

func (a size) plus(b size) size {
	return size{bytes: a.bytes + b.bytes, inTree: a.inTree + b.inTree, keys: a.keys + b.keys}
}

// boundsOf returns the limits of a commit group: those of the storage engine, or of the store if they
// are lower.
func boundsOf(e kv.KV) kv.Bounds {
	b := e.Bounds()
	b.Keys, b.Key = min(b.Keys, maxGroupKeys), min(b.Key, layout.MaxKey)
	return b
}

// fits reports whether the storage engine can commit this size at once.
func (s *Store) fits(z size) bool {
	return z.bytes <= maxGroupBytes && z.keys <= s.bounds.Keys && z.inTree <= s.bounds.Bytes
}

// measure computes the size of a batch. It is called once, before the committer receives the batch.
func (s *Store) measure(w *Writes) size {
	z := size{keys: len(w.ops)}
	if w.entry >= 0 {
		// The cursors of a commit group share one row in each namespace. The size of the batch includes
		// this row, in case the batch is alone in its group.
		// The first entry of a namespace also stores the beginning of its rollups of usage.
		z.keys += 2
		z.inTree += int64(len(w.runID)) + 128
	}
	for i := range w.usage {
		z.keys += 2
		z.bytes += int64(len(w.usage[i].key)) + usageOverhead
		z.inTree += int64(len(w.usage[i].key)) + usageOverhead
	}
	for i := range w.ops {
		key, value := int64(len(w.ops[i].Key)), w.ops[i].ValueBytes()
		z.bytes += key + value
		if apart := s.bounds.Apart; apart > 0 && value >= apart {
			value = kv.PairBytes
		}
		z.inTree += key + value + kv.PairBytes
		if layout.Kinds[w.ops[i].Key[0]].Queue != nil {
			// Each row of a queue may lower the queue's watermark (where scans begin), which is one
			// more row to write.
			z.keys++
			z.inTree += 32
		}
	}
	return z
}

// checkSize returns an error if a batch is larger than a commit group may be, because a batch is never
// split. It also returns an error if one of the keys is too long for the storage engine.
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

// group is a commit group: the batches that the committer collects and commits together.
type group struct {
	// txn reads the last synced commit group, whose number is ts. It is nil before the first request of
	// this group and after this group was sent. batch collects the writes of this group, which txn does
	// not show.
	txn      *layout.Txn
	ts       uint64
	batch    kv.Batch
	requests []*request
	// refusals are batches with a failed precondition. They are answered when the group is stored,
	// because the writes that they conflict with must be visible first.
	refusals []refusal
	size     size
	// guarded maps those keys that preconditions may read to the values that the commit group sets for
	// them.
	guarded map[string][]byte
	// cursorRows are the values of the commit group's cursor rows, by namespace. A value lists the
	// entries of the group in the order of their cursors.
	cursorRows map[uint32][]byte
	number     uint64
	// rows counts the rows that the commit group has set.
	rows int
}

func (g *group) info() Group {
	return Group{Number: g.number, Batches: len(g.requests), Keys: g.rows, Bytes: g.size.bytes}
}

// checkPreconditions checks a batch's preconditions against the store and all earlier batches, and adds the
// batch to the commit group. If it returns an error, no row of the batch is in the group, or the store has
// failed, see addToGroup.
func (c *committer) checkPreconditions(g *group, r *request) error {
	if err := c.checkSeq(g, r.w); err != nil {
		return err
	}
	for i := range r.w.expects {
		e := &r.w.expects[i]
		if err := layout.Guard(e.key); err != nil {
			return err
		}
		if e.value == nil && e.key[0] == layout.KindRunID && c.knownIDs.isUnused(r.w.run, e.key) {
			continue
		}
		value, err := c.lookup(g, e.key)
		if err != nil {
			return err
		}
		if !e.isMet(value) {
			return e.err
		}
	}
	if err := c.checkUnreferred(g, r.w.requireNoRefs); err != nil {
		return err
	}
	if err := c.addUsage(g, r.w); err != nil {
		return err
	}
	if err := c.read(g, r.w); err != nil {
		return err
	}
	return c.addToGroup(g, r)
}

func (e *expect) isMet(value []byte) bool {
	if e.predicate != nil {
		return e.predicate(value)
	}
	return (value == nil) == (e.value == nil) && bytes.Equal(value, e.value)
}

// checkSeq returns machine.ErrSeqConflict unless the last record of the run is the one that the batch follows.
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

// lookup returns the value that a key has after all batches that were admitted before. Preconditions of
// a batch are checked against this value.
func (c *committer) lookup(g *group, key []byte) ([]byte, error) {
	if v, ok := g.guarded[string(key)]; ok {
		return v, nil
	}
	if v, ok := c.sentGuarded[string(key)]; ok {
		return v, nil
	}
	return layout.Get(g.txn, key)
}

// read reads the stored values of the rows that the batch merges, for example sums, into g.guarded. setRow
// computes the new values from them. read runs before any row is set, so that a failed read concerns only this
// batch.
func (c *committer) read(g *group, w *Writes) error {
	for i := range w.ops {
		if !w.ops[i].IsMerge() {
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

// addToGroup assigns a cursor to the batch, if it has a journal entry, and sets its keys. After an error a part
// of the batch is in the group, so the store fails.
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
		for _, op := range c.watermarks.updateOps() {
			g.set(&op)
		}
	}
	if w.run != nil {
		c.recentSeqs.put(w.run, w.last)
		c.knownIDs.addIDs(w)
	}
	g.requests = append(g.requests, r)
	g.size = g.size.plus(w.size)
	return nil
}

// setRow sets or deletes the row of a key. If the row belongs to a queue and is due before the queue's
// watermark (where scans begin), setRow also lowers the watermark.
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

// addCursorRows adds one cursor row for each namespace. It maps the cursors of the commit group to
// entries, and its key contains the last of these cursors. Cursor rows are never deleted, so tables and
// logs show with which group they end. A group without entries gets a special row for this purpose.
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
// need a read of the store. It has two generations. Together they always include the commit group being
// collected and the group being synced, which an LRU cache could not guarantee.
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

// turn begins a new generation if the newest is full, and drops the oldest. It is called when a commit group is
// sent.
func (r *recentSeqs) turn() {
	if len(r.now) >= recentRuns {
		r.now, r.before = make(map[string]uint64, recentRuns), r.now
	}
}

// holdsApart reports whether a value of the commit group has at least size bytes, so that the storage
// engine stores it separately. If size is 0, the engine stores no value separately.
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

// last returns the last journal entry of the commit group. It returns nil if the group has no entries.
func (g *group) last() *layout.LastEntry {
	for _, r := range slices.Backward(g.requests) {
		if w := r.w; w.entry >= 0 {
			return &layout.LastEntry{Ns: w.ns, Cursor: w.cursor, Hash: w.hash}
		}
	}
	return nil
}

// ops returns all ops of the batches in the commit group. They do not include cursor rows and
// watermarks.
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

// knownIDs caches the request ids (idempotency ids) of runs that began after the store was opened. Most
// ids of new requests are new, and without the cache the database must search every level of its tree
// to find this out. The cache contains either all ids of a run or none. Only the committer uses it. It
// is not an LRU cache, because each commit looks up ids, and a map lookup by bytes allocates no string.
type knownIDs struct {
	seed maphash.Seed
	// runs maps the key of a run's head (current state) to the hashes of all idempotency ids of the
	// run.
	runs map[string]map[uint64]struct{}
	// size is the number of entries in the cache: one for each run and one for each id.
	size int
}

// maxKnownIDs limits the number of entries in the cache (one for each run and one for each id). Each takes about 20
// bytes.
const maxKnownIDs = 500_000

func newKnownIDs() knownIDs {
	return knownIDs{seed: maphash.MakeSeed(), runs: make(map[string]map[uint64]struct{})}
}

// isUnused reports whether the cache proves that no commit of the run has used an idempotency id. key is
// the key of the id.
func (f *knownIDs) isUnused(run, key []byte) bool {
	ids, known := f.runs[string(run)]
	if !known {
		return false
	}
	_, taken := ids[maphash.Bytes(f.seed, key)]
	return !taken
}

// addIDs adds the idempotency ids of an admitted batch to the cache.
func (f *knownIDs) addIDs(w *Writes) {
	ids, known := f.runs[string(w.run)]
	if w.prev == 0 && !known {
		ids, known = make(map[uint64]struct{}), true
		f.runs[string(w.run)] = ids
		f.size++
	}
	if !known {
		return
	}
	for i := range w.expects {
		if w.expects[i].key[0] == layout.KindRunID {
			ids[maphash.Bytes(f.seed, w.expects[i].key)] = struct{}{}
			f.size++
		}
	}
	if f.size > maxKnownIDs {
		f.evict()
	}
}

// evict evicts a quarter of the cache. It evicts whole runs, in random order.
func (f *knownIDs) evict() {
	for run, ids := range f.runs {
		if f.size <= maxKnownIDs*3/4 {
			return
		}
		f.size -= 1 + len(ids)
		delete(f.runs, run)
	}
}

// checkUnreferred returns errReferred if a reference to a blob exists, that is, a key that begins with
// p. It looks in the store, in the group in flight and in the group being collected. A batch that adds
// a reference later finds that the blob no longer exists.
func (c *committer) checkUnreferred(g *group, p []byte) error {
	if p == nil {
		return nil
	}
	if err := layout.Guard(p); err != nil {
		return err
	}
	for _, guarded := range []map[string][]byte{g.guarded, c.sentGuarded} {
		for key, value := range guarded {
			if value != nil && strings.HasPrefix(key, string(p)) {
				return errReferred
			}
		}
	}
	if c.anyLeft(g, p) {
		return errReferred
	}
	return g.txn.Err()
}

// anyLeft reports whether a key that begins with p will exist when the commit group being collected and
// the group in flight are stored.
func (c *committer) anyLeft(g *group, p []byte) bool {
	it := g.txn.Scan(kv.Range{Prefix: p, KeysOnly: true})
	defer it.Close()
	for it.Rewind(); layout.AtPrefix(it, p); it.Next() {
		_, gone := g.guarded[string(it.Key())]
		if !gone {
			_, gone = c.sentGuarded[string(it.Key())]
		}
		if !gone {
			return true
		}
	}
	return false
}

// watermarks contain the watermark of each queue. No row of the queue is due before this time, so scans
// of the queue begin there. Watermarks are necessary because in an LSM tree deleted rows stay until
// they are compacted, and a scan from the beginning would read all of them.
//
// Watermarks are stored at intervals, lowered by watermarkSlack, so that scans after a restart begin
// there. Only the committer stores them, in the group that it collects. All rows of this group and of
// earlier groups are at or after the watermark. A later row before the watermark lowers the watermark
// in its own group.
type watermarks struct {
	mu     sync.Mutex
	queues map[layout.QueueID]*watermark
}

// watermarkSlack is how much lower a stored watermark is than the one in memory, in nanoseconds.
// Because of it, a new row that is due now does not have to lower the stored watermark.
const watermarkSlack = int64(time.Minute)

type watermark struct {
	low int64
	// stored is the value of the stored watermark. It is MinInt64 if none was stored.
	stored int64
	// top is the latest due time of any row that was set or read. The watermark never rises above top,
	// because a scan of an empty queue proves nothing about later times.
	top int64
	// collected and inFlight are the due times of the earliest rows in the commit groups being collected and in
	// flight. Readers do not see these rows yet. seen is the due time of the earliest row that a running scan may
	// not see, because the row was not synced when the scan began, or was set later.
	collected, inFlight, seen int64
	scan                      sync.Mutex
}

func (m *watermarks) get(q layout.QueueID) *watermark {
	k := m.queues[q]
	if k == nil {
		k = &watermark{low: math.MinInt64, stored: math.MinInt64, top: math.MinInt64, collected: math.MaxInt64, inFlight: math.MaxInt64, seen: math.MaxInt64}
		m.queues[q] = k
	}
	return k
}

// set records that a row of a queue is due at the time at. It must be called before any reader can see
// the row. If the stored watermark must be lowered, set returns the op that does this.
func (m *watermarks) set(q layout.QueueID, at int64) *layout.Op {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.get(q)
	k.low, k.collected, k.seen, k.top = min(k.low, at), min(k.collected, at), min(k.seen, at), max(k.top, at)
	if at >= k.stored {
		return nil
	}
	k.stored = at - watermarkSlack
	return layout.MarkOp(q, k.stored)
}

// markSent is called when the collected commit group is sent, so that its rows are in flight from now on.
func (m *watermarks) markSent() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.queues {
		k.inFlight, k.collected = k.collected, math.MaxInt64
	}
}

// markSynced is called when the commit group in flight is synced, so that readers see its rows.
func (m *watermarks) markSynced() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.queues {
		k.inFlight = math.MaxInt64
	}
}

// begin starts a scan of a queue and returns the watermark, which is the due time at which the scan
// begins. The caller must call finish. Scans of one queue run one after the other.
func (m *watermarks) begin(q layout.QueueID) (*watermark, int64) {
	m.mu.Lock()
	k := m.get(q)
	m.mu.Unlock()
	k.scan.Lock()
	m.mu.Lock()
	defer m.mu.Unlock()
	k.seen = min(k.collected, k.inFlight)
	return k, k.low
}

// finish ends a scan and raises the watermark. first is the due time of the first remaining row of the
// queue. met is the due time of the latest row that the scan read, or MinInt64 if it read none.
func (m *watermarks) finish(k *watermark, first, met int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k.top = max(k.top, met)
	k.low = max(k.low, min(first, k.seen, k.top))
	k.scan.Unlock()
}

// isStale reports whether a queue's watermark (where scans begin) is so much later than its stored value
// that it should be stored.
func (k *watermark) isStale() bool {
	return k.low > math.MinInt64+watermarkSlack && k.low-watermarkSlack > k.stored
}

// countStale counts the watermarks that are so much later than their stored values that they should be
// stored.
func (m *watermarks) countStale() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.queues {
		if k.isStale() {
			n++
		}
	}
	return n
}

// updateOps returns the ops that store the watermarks whose stored values are too old. The ops belong to
// the group that is being collected. No other batch may be admitted to it between this call and these
// ops.
func (m *watermarks) updateOps() []layout.Op {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ops []layout.Op
	for q, k := range m.queues {
		if k.isStale() {
			k.stored = k.low - watermarkSlack
			ops = append(ops, *layout.MarkOp(q, k.stored))
		}
	}
	return ops
}

// load sets a queue's watermark (where scans begin) from its stored row when the store is opened.
func (m *watermarks) load(key []byte, at int64) {
	if len(key) != 6 {
		return
	}
	k := m.get(layout.QueueID{Ns: binary.BigEndian.Uint32(key[1:]), Kind: key[5]})
	k.low, k.stored = at, at
}
