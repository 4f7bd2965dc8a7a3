package check

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Repair counts the changes of a repair.
type Repair struct {
	// Runs counts the runs whose entries were all read and found correct. They were replayed, except erased runs.
	// Entries counts the entries of these runs.
	Runs, Entries int64
	// Rows counts, for each kind, the rows that differed from what their journal entries imply.
	Rows map[string]*RowRepair
	// Broken contains one fault for each run whose entries are inconsistent or missing, or whose pack is unknown.
	// The rows of these runs stay unchanged. It also contains faults of cursors, which belong to no run.
	Broken []*Fault
}

// RowRepair counts the changed rows of one kind.
type RowRepair struct{ Made, Changed, Removed int64 }

// Rebuild rebuilds every row that follows from journal entries and differs from them: heads (current states),
// checkpoints, ids, artifact and message rows, timers, outgoing work, ready turns, list entries, references to
// blobs, business keys, cursors, accounts. It also removes watermarks that hide a row. It never writes an
// entry. It does not change the worker that a step is assigned to, or cancellations that wait to be sent. It
// does not rebuild a lost cancellation, because it cannot distinguish it from one that was already sent.
//
// write stores ops. Rebuild calls it several times, and each call must store all or none of its ops.
// The store must have no other writer. A run whose graph is not found counts as broken.
func Rebuild(ctx context.Context, view View, write func(ops []layout.Op) error, graphs Graphs) (Repair, error) {
	return rebuild(ctx, view, write, graphs, false)
}

// rebuild is [Rebuild]. lossy means that entries were lost for good, so that every cursor without an entry becomes a
// gap.
func rebuild(ctx context.Context, view View, write func(ops []layout.Op) error, graphs Graphs, lossy bool) (Repair, error) {
	r := &repairer{
		lossy:   lossy,
		Checker: Checker{Ended: ctx.Err, graphs: graphs, report: &Report{}, sums: accountSums{}, usage: usageSums{}, effects: effectRows{}},
		write:   write,
		seed:    maphash.MakeSeed(), wanted: map[uint64]struct{}{}, broken: map[queueRun]bool{},
		gaps: map[uint32][]gap{}, deleted: map[uint32]uint64{}, result: Repair{Rows: map[string]*RowRepair{}},
	}
	err := view(func(txn *layout.Txn) error {
		r.Txn = txn
		for _, step := range []func() error{r.readDeleted, r.markBeingRemoved, r.checkCursorRows, r.runs, r.accounts, r.rollups, r.keys, r.writeMissingCursors, r.evidence, r.strays} {
			if err := step(); err != nil {
				return err
			}
		}
		return r.flush()
	})
	if err == nil {
		err = view(func(txn *layout.Txn) error {
			r.Txn = txn
			return r.watermarks()
		})
	}
	return r.result, err
}

// queueRun identifies a run by its namespace and id.
type queueRun struct {
	ns  uint32
	run string
}

// gap is a range of cursors, from and to included, that no correct cursor row covers. found maps the
// cursors in this range to the entries that have them.
type gap struct {
	from, to uint64
	found    map[uint64]codec.EntryRef
}

// repairer is one running repair of one snapshot.
type repairer struct {
	Checker
	// write stores ops in one commit.
	write  func(ops []layout.Op) error
	seed   maphash.Seed
	result Repair
	// wanted are the hashes of the keys of all rows that follow, or may follow, from journal entries.
	// Rows with other keys are removed.
	wanted map[uint64]struct{}
	// broken are the runs that the repair does not change. They include runs that are being removed.
	broken map[queueRun]bool
	gaps   map[uint32][]gap
	lossy  bool
	// deleted is the number of deleted entries in each namespace whose cursors have no gap in a cursor
	// row yet. A gap is written in place of a deleted entry.
	deleted map[uint32]uint64
	ops     []layout.Op
	bytes   int
	// digests maps runs to the digests of their packs, according to the list index. It is nil until it
	// is needed.
	digests map[queueRun]string
	// newest is the time of the newest record, in Unix nanoseconds.
	newest int64
}

// RepairedKinds lists the kinds of rows that follow from journal entries, except the rows of cursors, accounts
// and business keys, which other steps of the repair handle.
var RepairedKinds = []byte{
	layout.KindHead, layout.KindSnapshot, layout.KindArtifact, layout.KindMessage, layout.KindRunID, layout.KindCallerID,
	layout.KindTimer, layout.KindOutbox, layout.KindReady, layout.KindIndex, layout.KindBlobRef,
}

func (r *repairer) hash(key []byte) uint64 { return maphash.Bytes(r.seed, key) }

// put adds an op that sets or deletes a row. The ops are written later, in several commits. count
// counts the change in the report.
func (r *repairer) put(op layout.Op, count func(*RowRepair)) error {
	if op.Key[0] == layout.KindEntry {
		return fmt.Errorf("a repair writes no entry: %x", op.Key)
	}
	row := layout.Kinds[op.Key[0]].Row
	if r.result.Rows[row] == nil {
		r.result.Rows[row] = &RowRepair{}
	}
	count(r.result.Rows[row])
	r.ops = append(r.ops, op)
	r.bytes += len(op.Key) + len(op.Value)
	if r.bytes < repairBytes && len(r.ops) < repairKeys {
		return nil
	}
	return r.flush()
}

// flush writes the collected ops. After a read error it writes nothing, because the scan may have
// missed rows.
func (r *repairer) flush() error {
	if err := r.Txn.Err(); err != nil || len(r.ops) == 0 {
		return err
	}
	ops := r.ops
	r.ops, r.bytes = nil, 0
	return r.write(ops)
}

func wasMade(c *RowRepair)    { c.Made++ }
func wasChanged(c *RowRepair) { c.Changed++ }
func wasRemoved(c *RowRepair) { c.Removed++ }

// runs replays every run and compares its stored rows with the replayed ones.
func (r *repairer) runs() error {
	it := r.Txn.Scan(kv.Range{Prefix: []byte{layout.KindEntry}})
	defer it.Close()
	for it.Rewind(); layout.AtPrefix(it, []byte{layout.KindEntry}); {
		ns, run, err := layout.RunOf(it.Key())
		if err != nil {
			return err
		}
		if err := r.replayRun(it, ns, run); err != nil {
			return err
		}
	}
	return nil
}

// replayRun replays the journal entries of one run. The iterator must be at the first of them.
func (r *repairer) replayRun(it *kv.Iterator, ns uint32, run string) error {
	p := layout.RunKey(nil, layout.KindEntry, ns, run)
	repair := &runRepair{repairer: r, Prover: Prover{Ns: ns, Run: run, Keys: r.Txn.Keys}, rows: map[string][]byte{}}
	going := r.broken[queueRun{ns, run}]
	var fault error
	for ; layout.AtPrefix(it, p); it.Next() {
		if err := r.Ended(); err != nil {
			return err
		}
		value, err := layout.CopyOf(it)
		if err == nil {
			r.noteMissing(ns, run, value)
			if fault == nil && !going {
				fault = repair.entry(value)
			}
		} else if fault == nil {
			fault = err
		}
	}
	if going {
		return nil
	}
	if fault == nil {
		fault = repair.checkHeadSeq()
	}
	if fault == nil {
		r.result.Runs++
		r.result.Entries += repair.entries
		if repair.erased {
			// The entries of an erased run cannot be replayed, so its rows stay unchanged.
			r.broken[queueRun{ns, run}] = true
			return nil
		}
		return repair.compare()
	}
	proof, err := repair.proof(fault)
	if err != nil {
		return err
	}
	r.broken[queueRun{ns, run}] = true
	r.result.Broken = append(r.result.Broken, &Fault{Namespace: ns, Run: run, Seq: proof.BadSeq, Row: "entry", Detail: proof.Detail})
	return nil
}

// runRepair collects the rows that the journal entries of one run imply.
type runRepair struct {
	*repairer
	Prover
	// rows maps the keys of these rows to their values. A nil value means that the row may or may not
	// exist.
	rows     map[string][]byte
	imported bool
}

// checkHeadSeq returns a fault if the stored head (current state), or a checkpoint in its place, has a higher
// seq than the entries. The records up to the head were acknowledged. If the head were rebuilt from the
// entries, the loss of these records would no longer be visible.
func (one *runRepair) checkHeadSeq() error {
	if st := one.knownState(); st != nil && st.Seq > one.seq {
		return one.fault("entry", one.seq+1, "missing: the head says record %d, the entries end at %d", st.Seq, one.seq)
	}
	return nil
}

// entry checks the next entry of the run and collects the rows that it should have written.
func (one *runRepair) entry(value []byte) error {
	if one.seq == 0 {
		one.imported = codec.EntryCursor(value) == 0
		e, err := codec.ReadEntry(one.Prover.Run, value, one.Keys)
		if err != nil {
			return one.fault("entry", 1, "%v", err)
		}
		if one.erased = e.Erased; one.erased {
			_, _, err := one.Next(value)
			return err
		}
		if one.Prover.Graph, err = one.graphOf(value); isReadFailure(err) {
			return err
		}
		if err != nil {
			return one.fault("entry", 1, "its pack: %v", err)
		}
	}
	_, w, err := one.Next(value)
	if err != nil || w == nil {
		return err
	}
	for i := range w.Ops {
		one.fold(&w.Ops[i])
	}
	return nil
}

// fold applies one op of an entry to the rows of the run. It leaves out entries, which are never rewritten, and
// accounts, which the repair computes from the sums of all runs. For an imported run it takes only the kinds
// that an import stores, see end.
func (one *runRepair) fold(op *layout.Op) {
	switch kind := op.Key[0]; {
	case kind == layout.KindEntry, kind == layout.KindAccount:
	case one.imported && kind != layout.KindSnapshot && kind != layout.KindArtifact && kind != layout.KindMessage && kind != layout.KindBlobRef:
	case op.Delete:
		delete(one.rows, string(op.Key))
	case kind == layout.KindOutbox && machine.OutboxKind(op.Key[5]) == machine.OutboxCancel:
		// The cancellation may have been sent, may wait to be sent, or may have been lost. So the row
		// may or may not exist.
		one.rows[string(op.Key)] = nil
	default:
		one.rows[string(op.Key)] = op.Value
	}
}

// end adds the rows that an imported run has in addition to its entries: its current state, artifact
// rows and list rows.
func (one *runRepair) end() {
	if !one.imported {
		return
	}
	st := *one.Progress
	st.Imported = true
	for _, op := range layout.ListedRows(one.Ns, one.Prover.Run, st.Unlisted) {
		one.rows[string(op.Key)] = op.Value
	}
	one.rows[string(layout.HeadKey(one.Ns, one.Prover.Run))] = codec.EncodeHead(&st, one.Chain)
	for _, c := range rules.Indexes(&st) {
		one.rows[string(layout.IndexKey(nil, one.Ns, one.Prover.Run, &c))] = codec.Mark
	}
}

// compare rewrites the stored rows of the run that differ from what its entries imply.
func (one *runRepair) compare() error {
	one.end()
	if !one.imported {
		one.sums.add(one.Progress)
		one.usage.add(one.Ns, one.Progress)
		one.newest = max(one.newest, one.Progress.At)
	}
	for key, want := range one.rows {
		one.wanted[one.hash([]byte(key))] = struct{}{}
		if want == nil {
			continue
		}
		got, there := one.readRow([]byte(key))
		if !there {
			if err := one.put(layout.Op{Key: []byte(key), Value: want}, wasMade); err != nil {
				return err
			}
			continue
		}
		if bytes.Equal(got, want) || key[0] == layout.KindOutbox && namesWorker(got) {
			continue
		}
		if err := one.put(layout.Op{Key: []byte(key), Value: want}, wasChanged); err != nil {
			return err
		}
	}
	return nil
}

// namesWorker reports whether the value of a step's outbox row names the worker that the step is assigned to.
// No entry contains this worker, so the row must be kept.
func namesWorker(value []byte) bool {
	_, err := codec.DecodeHolder(value)
	return err == nil
}

// readRow returns the value of a row and reports whether the row exists. If the value cannot be read, it
// returns nil and true.
func (r *repairer) readRow(key []byte) (value []byte, there bool) {
	value, err := layout.Get(r.Txn, key)
	return value, value != nil || err != nil
}

// graphOf returns the workflow graph of a run. The run's head (current state) names the pack. If it
// cannot be read, a checkpoint or the list index names it.
func (one *runRepair) graphOf(first []byte) (*machine.Graph, error) {
	if st := one.knownState(); st != nil {
		return one.graphs(st.Digest, st.Entry, st.Agent, st.EntryOverride)
	}
	e, err := one.Txn.Entry(one.Prover.Run, bytes.Clone(first))
	if err != nil {
		return nil, err
	}
	digest, err := one.digest(one.Ns, one.Prover.Run)
	if err != nil {
		return nil, err
	}
	override := false
	switch c := e.Input.Command.(type) {
	case machine.Start:
		override = c.EntryOverride
	case machine.Fork:
		override = c.EntryOverride
	}
	for i := range e.Records {
		if t, ok := e.Records[i].Body.(*machine.Transition); ok {
			return one.graphs(digest, t.Intended, "", override)
		}
	}
	return one.graphs(digest, "", "", override)
}

// knownState returns the stored head (current state) of the run, or a checkpoint if the head cannot be read.
// If neither can be read, it returns nil.
func (one *runRepair) knownState() *machine.State {
	if st, err := layout.StoredHead(one.Txn, one.Ns, one.Prover.Run); err == nil && st.RunID == one.Prover.Run {
		return st
	}
	p := layout.RunKey(nil, layout.KindSnapshot, one.Ns, one.Prover.Run)
	it := one.Txn.Scan(kv.Range{Prefix: p})
	defer it.Close()
	for it.Rewind(); layout.AtPrefix(it, p); it.Next() {
		value, err := layout.CopyOf(it)
		if err != nil {
			continue
		}
		if st, err := one.Txn.Head(value); err == nil && st.RunID == one.Prover.Run {
			return st
		}
	}
	return nil
}

// digest returns the digest of a run's pack according to the list index.
func (r *repairer) digest(ns uint32, run string) (string, error) {
	if r.digests == nil {
		r.digests = map[queueRun]string{}
		err := r.Each([]byte{layout.KindIndex}, func(key, _ []byte) error {
			ns, index, err := layout.RunOf(key)
			if err != nil || index != "pack" {
				return err
			}
			value, run, err := layout.TaskRow(key, ns)
			if err == nil && bytes.HasPrefix([]byte(value), []byte("sha256:")) {
				r.digests[queueRun{ns, run}] = value
			}
			return err
		})
		if err != nil {
			return "", err
		}
	}
	digest, ok := r.digests[queueRun{ns, run}]
	if !ok {
		return "", fmt.Errorf("no head, checkpoint or list entry names it")
	}
	return digest, nil
}

// strays removes the rows that follow from no journal entry, except the rows of broken runs.
func (r *repairer) strays() error {
	for _, kind := range RepairedKinds {
		it := r.Txn.Scan(kv.Range{Prefix: []byte{kind}})
		for it.Rewind(); layout.AtPrefix(it, []byte{kind}); it.Next() {
			key := it.KeyCopy()
			if _, ok := r.wanted[r.hash(key)]; ok || r.brokens(it) {
				continue
			}
			if err := r.put(layout.Op{Key: key, Delete: true}, wasRemoved); err != nil {
				it.Close()
				return err
			}
		}
		it.Close()
	}
	return nil
}

// brokens reports whether a row belongs, or could belong, to a run that cannot be replayed, so that the repair must
// keep the row.
func (r *repairer) brokens(item *kv.Iterator) bool {
	if len(r.broken) == 0 {
		return false
	}
	ns, run, err := ownerOf(item)
	return err != nil || r.broken[queueRun{ns, run}]
}

// ownerOf returns the run whose journal entries made a row.
func ownerOf(item *kv.Iterator) (ns uint32, run string, err error) {
	key := item.Key()
	ns = binary.BigEndian.Uint32(key[1:5])
	switch key[0] {
	case layout.KindTimer:
		t, err := layout.ReadTimer(key)
		return ns, t.RunID, err
	case layout.KindOutbox:
		o, err := layout.ReadOutbox(key)
		return ns, o.RunID, err
	case layout.KindIndex:
		_, run, err = layout.TaskRow(key, ns)
		return ns, run, err
	case layout.KindSubscription, layout.KindDeadLetter:
		of, _, err := layout.ReadSubscriptionKey(key)
		return ns, of.Run, err
	case layout.KindBlobRef:
		run, _, ok := layout.CutName(key[min(len(key), 5+32):])
		if !ok {
			err = fmt.Errorf("malformed key %x", key)
		}
		return ns, run, err
	case layout.KindCallerID:
		err = layout.ValueOf(item, func(v []byte) error {
			d, err := codec.LeftOfDedupe(machine.Dedupe{Scope: machine.PerPrincipal}, v)
			run = d.RunID
			return err
		})
		return ns, run, err
	}
	return layout.RunOf(key)
}

// watermarks removes every watermark that is later than a row of its queue, or that cannot be decoded. A
// watermark is the time at which scans of a queue begin. Without one, they begin at the start of the queue.
func (r *repairer) watermarks() error {
	err := r.Each([]byte{layout.KindWatermark}, func(key, value []byte) error {
		at, err := codec.DecodeNumber(value)
		if err == nil && len(key) == 6 {
			p := layout.QueuePrefix(layout.QueueID{Ns: binary.BigEndian.Uint32(key[1:]), Kind: key[5]})
			it := r.Txn.Scan(kv.Range{Prefix: p})
			defer it.Close()
			if it.Rewind(); !layout.AtPrefix(it, p) || layout.DueAt(it.Key()[len(p):]) >= int64(at) {
				return nil
			}
		}
		return r.put(layout.Op{Key: key, Delete: true}, wasRemoved)
	})
	if err != nil {
		return err
	}
	return r.flush()
}

// checkCursorRows keeps the cursor rows that agree with the entries and removes the others. It records
// the cursors that no row covers in r.gaps.
func (r *repairer) checkCursorRows() error {
	next := map[uint32]uint64{}
	it := r.Txn.Scan(kv.Range{Prefix: []byte{layout.KindCursor}})
	defer it.Close()
	for it.Rewind(); layout.AtPrefix(it, []byte{layout.KindCursor}); it.Next() {
		key := it.KeyCopy()
		value, err := layout.CopyOf(it)
		first, ok := r.isCursorRowSound(key, value)
		if err != nil || !ok {
			if err := r.put(layout.Op{Key: key, Delete: true}, wasRemoved); err != nil {
				return err
			}
			continue
		}
		ns, last := binary.BigEndian.Uint32(key[1:]), binary.BigEndian.Uint64(key[5:])
		r.account(ns, value)
		if want := next[ns] + 1; first > want {
			r.gaps[ns] = append(r.gaps[ns], gap{from: want, to: first - 1, found: map[uint64]codec.EntryRef{}})
		}
		next[ns] = last
	}
	r.addFinalGaps(next)
	return r.Ended()
}

// addFinalGaps adds a gap after the last cursor row of each namespace, because further entries without a cursor
// row may follow there.
func (r *repairer) addFinalGaps(next map[uint32]uint64) {
	for ns, last := range next {
		r.gaps[ns] = append(r.gaps[ns], gap{from: last + 1, to: math.MaxUint64, found: map[uint64]codec.EntryRef{}})
	}
}

// isCursorRowSound reports whether every entry that a cursor row refers to has the right cursor. first is the
// cursor of the first entry in the row.
func (r *repairer) isCursorRowSound(key, value []byte) (first uint64, ok bool) {
	places, err := codec.DecodeEntryRefs(value)
	if err != nil || len(key) != 13 {
		return 0, false
	}
	ns, last := binary.BigEndian.Uint32(key[1:]), binary.BigEndian.Uint64(key[5:])
	if uint64(len(places)) > last {
		return 0, false
	}
	first = last + 1 - uint64(len(places))
	for i, place := range places {
		if place.Gap() {
			continue
		}
		if r.checkCursor(ns, first+uint64(i), place) != nil {
			return 0, false
		}
	}
	return first, true
}

// noteMissing records an entry whose cursor no cursor row covers, so that fillGap writes a row for it.
func (r *repairer) noteMissing(ns uint32, run string, value []byte) {
	cursor := codec.EntryCursor(value)
	first, _, err := codec.EntrySpan(value)
	if cursor == 0 || err != nil {
		return
	}
	if r.gaps[ns] == nil {
		r.addFinalGaps(map[uint32]uint64{ns: 0})
	}
	for i := range r.gaps[ns] {
		if g := &r.gaps[ns][i]; cursor >= g.from && cursor <= g.to {
			g.found[cursor] = codec.EntryRef{Run: run, First: first}
		}
	}
}

// writeMissingCursors writes the missing cursor rows. It is unknown which entries were in one commit. So each range of
// missing cursors becomes one row, or several rows of at most maxCursorEntries.
func (r *repairer) writeMissingCursors() error {
	for ns, gaps := range r.gaps {
		for i := range gaps {
			if err := r.fillGap(ns, &gaps[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxCursorEntries is the maximum number of entries in a cursor row that a repair writes. repairBytes
// and repairKeys are the approximate limits of one commit, in bytes and in keys.
const (
	maxCursorEntries = 4096
	repairBytes      = 2 << 20
	repairKeys       = 4096
)

// fillGap writes the cursor rows of a gap in the cursor index. Every cursor in the gap must belong to an entry, or
// to an entry of a deleted run. Otherwise the gap is reported as broken.
func (r *repairer) fillGap(ns uint32, g *gap) error {
	r.fillDeleted(ns, g)
	var row []byte
	for n := range uint64(len(g.found)) {
		cursor := g.from + n
		place, ok := g.found[cursor]
		if !ok {
			r.result.Broken = append(r.result.Broken, &Fault{Namespace: ns, Row: "cursor", Detail: fmt.Sprintf("%d has no entry", cursor)})
			return nil
		}
		row = codec.AppendEntryRef(row, place.Run, max(place.First, 1))
		if n+1 < uint64(len(g.found)) && (n+1)%maxCursorEntries != 0 {
			continue
		}
		key := layout.CursorKey(nil, ns, cursor)
		count := wasMade
		if _, there := r.readRow(key); there {
			// checkCursorRows has counted the old row under this key as removed, but the row is only
			// changed.
			r.result.Rows["cursor"].Removed--
			count = wasChanged
		}
		if err := r.put(layout.Op{Key: key, Value: row}, count); err != nil {
			return err
		}
		row = nil
	}
	if g.to != math.MaxUint64 && uint64(len(g.found)) != g.to-g.from+1 {
		r.result.Broken = append(r.result.Broken, &Fault{Namespace: ns, Row: "cursor", Detail: fmt.Sprintf("%d entries are missing before %d", g.to-g.from+1-uint64(len(g.found)), g.to+1)})
	}
	return nil
}
