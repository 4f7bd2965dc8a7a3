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
	// Runs counts the runs that were replayed from their first entry. Entries counts the entries of
	// these runs.
	Runs, Entries int64
	// Rows counts, for each kind, the rows that differed from the rows that their entries make.
	Rows map[string]*RowRepair
	// Broken contains one fault for each run whose entries are inconsistent or whose pack is unknown.
	// The rows of these runs stay unchanged.
	Broken []*Fault
}

// RowRepair counts the changed rows of one kind.
type RowRepair struct{ Made, Changed, Removed int64 }

// Rebuild rebuilds every row that follows from entries and differs from them: heads, checkpoints, ids,
// artifact and message rows, timers, outgoing work, ready turns, list entries, references to blobs,
// business keys, cursors. It never writes an entry. It keeps the holder of a step's outgoing work, and
// waiting cancellations. It does not rebuild a lost cancellation, because it cannot distinguish a lost
// cancellation from a sent one.
//
// write stores ops. Rebuild calls it several times, and each call must store all or none of its ops.
// The store must have no other writer. A run whose graph is not found counts as broken.
func Rebuild(ctx context.Context, view View, write func(ops []layout.Op) error, graphs Graphs) (Repair, error) {
	r := &repairer{
		Checker: Checker{Ended: ctx.Err, graphs: graphs, report: &Report{}, sums: accountSums{}, effects: effectRows{}},
		write:   write,
		seed:    maphash.MakeSeed(), wanted: map[uint64]struct{}{}, broken: map[queueRun]bool{},
		gaps: map[uint32][]gap{}, deleted: map[uint32]uint64{}, out: Repair{Rows: map[string]*RowRepair{}},
	}
	err := view(func(txn *layout.Txn) error {
		r.Txn = txn
		for _, step := range []func() error{r.kept, r.going, r.checkCursorRows, r.runs, r.accounts, r.keys, r.fill, r.evidence, r.strays} {
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
	return r.out, err
}

// queueRun identifies a run.
type queueRun struct {
	ns  uint32
	run string
}

// gap is a range of cursors that no correct row covers. The last cursor is included. found are the
// entries with cursors in this range.
type gap struct {
	from, to uint64
	found    map[uint64]codec.EntryRef
}

// repairer is one running repair of one snapshot.
type repairer struct {
	Checker
	// write stores ops in one commit.
	write func(ops []layout.Op) error
	seed  maphash.Seed
	out   Repair
	// wanted are the hashes of all keys that the entries make or could have made.
	wanted map[uint64]struct{}
	// broken are the runs that the repair does not change. They include runs that are being removed.
	broken map[queueRun]bool
	gaps   map[uint32][]gap
	// deleted is the number of entries of deleted runs for which no gap exists yet, for each namespace.
	deleted map[uint32]uint64
	ops     []layout.Op
	bytes   int
	// digests are the packs of runs according to the list index. It is nil until it is needed.
	digests map[queueRun]string
}

// Repaired lists the kinds of rows that entries make, except cursors.
var Repaired = []byte{
	layout.KindHead, layout.KindSnapshot, layout.KindArtifact, layout.KindMessage, layout.KindRunID, layout.KindCallerID,
	layout.KindTimer, layout.KindOutbox, layout.KindReady, layout.KindIndex, layout.KindBlobRef,
}

func (r *repairer) hash(key []byte) uint64 { return maphash.Bytes(r.seed, key) }

// put adds an op that sets or deletes a row. The ops are written later, in several commits.
func (r *repairer) put(op layout.Op, count func(*RowRepair)) error {
	if op.Key[0] == layout.KindEntry {
		return fmt.Errorf("a repair writes no entry: %x", op.Key)
	}
	row := layout.Kinds[op.Key[0]].Row
	if r.out.Rows[row] == nil {
		r.out.Rows[row] = &RowRepair{}
	}
	count(r.out.Rows[row])
	r.ops = append(r.ops, op)
	r.bytes += len(op.Key) + len(op.Value)
	if r.bytes < repairBytes && len(r.ops) < repairKeys {
		return nil
	}
	return r.flush()
}

// flush writes the collected ops. After an interrupted scan it does not write them, because the scan
// may have missed rows.
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

// runs replays every run and compares its rows with the stored ones.
func (r *repairer) runs() error {
	it := r.Txn.Scan(kv.Range{Prefix: []byte{layout.KindEntry}})
	defer it.Close()
	for it.Rewind(); layout.Has(it, []byte{layout.KindEntry}); {
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

// replayRun replays the entries of one run. The iterator must be at the first of them.
func (r *repairer) replayRun(it *kv.Iterator, ns uint32, run string) error {
	p := layout.RunKey(nil, layout.KindEntry, ns, run)
	one := &runRepair{repairer: r, Prover: Prover{Ns: ns, Run: run, Keys: r.Txn.Keys}, rows: map[string][]byte{}}
	going := r.broken[queueRun{ns, run}]
	var fault error
	for ; layout.Has(it, p); it.Next() {
		if err := r.Ended(); err != nil {
			return err
		}
		value, err := layout.CopyOf(it)
		if err == nil {
			r.noteMissing(ns, run, value)
			if fault == nil && !going {
				fault = one.entry(value)
			}
		} else if fault == nil {
			fault = err
		}
	}
	if going {
		return nil
	}
	if fault == nil {
		fault = one.lost()
	}
	if fault == nil {
		r.out.Runs++
		r.out.Entries += one.entries
		if one.erased {
			// The run cannot be rebuilt, so its rows stay unchanged.
			r.broken[queueRun{ns, run}] = true
			return nil
		}
		return one.compare()
	}
	proof, err := one.proof(fault)
	if err != nil {
		return err
	}
	r.broken[queueRun{ns, run}] = true
	r.out.Broken = append(r.out.Broken, &Fault{Namespace: ns, Run: run, Seq: proof.BadSeq, Row: "entry", Detail: proof.Detail})
	return nil
}

// runRepair collects the rows that the entries of one run imply.
type runRepair struct {
	*repairer
	Prover
	// rows maps keys to values. A nil value means that the row may or may not exist.
	rows     map[string][]byte
	imported bool
}

// lost returns a fault if the stored head has a higher seq than the entries. The records up to the head
// were acknowledged. If the head were rebuilt from the entries, these records would be lost without a
// trace.
func (one *runRepair) lost() error {
	if st := one.known(); st != nil && st.Seq > one.seq {
		return one.fault("entry", one.seq+1, "missing: the head says record %d, the entries end at %d", st.Seq, one.seq)
	}
	return nil
}

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
		if one.Prover.Graph, err = one.graphOf(value); unread(err) {
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

func (one *runRepair) fold(op *layout.Op) {
	switch kind := op.Key[0]; {
	case kind == layout.KindEntry, kind == layout.KindAccount:
	case one.imported && kind != layout.KindSnapshot && kind != layout.KindArtifact && kind != layout.KindMessage && kind != layout.KindBlobRef:
	case op.Delete:
		delete(one.rows, string(op.Key))
	case kind == layout.KindOutbox && machine.OutboxKind(op.Key[5]) == machine.OutboxCancel:
		// The cancellation may have been sent, may still wait, or may have been lost. So the row may or
		// may not exist.
		one.rows[string(op.Key)] = nil
	default:
		one.rows[string(op.Key)] = op.Value
	}
}

// end adds the rows of an imported run. Such a run has no other rows.
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

// compare rewrites the rows that differ from what the entries imply.
func (one *runRepair) compare() error {
	one.end()
	if !one.imported {
		one.sums.add(one.Progress)
	}
	for key, want := range one.rows {
		one.wanted[one.hash([]byte(key))] = struct{}{}
		if want == nil {
			continue
		}
		got, there := one.stored([]byte(key))
		if !there {
			if err := one.put(layout.Op{Key: []byte(key), Value: want}, wasMade); err != nil {
				return err
			}
			continue
		}
		if bytes.Equal(got, want) || key[0] == layout.KindOutbox && held(got) {
			continue
		}
		if err := one.put(layout.Op{Key: []byte(key), Value: want}, wasChanged); err != nil {
			return err
		}
	}
	return nil
}

// held reports whether the value of an outbox row can be decoded as the holder of a step. No entry
// contains this holder.
func held(value []byte) bool {
	_, err := codec.DecodeHolder(value)
	return err == nil
}

// stored returns the value of a row and reports whether the row exists. If the value is damaged, it
// returns nil and true.
func (r *repairer) stored(key []byte) (value []byte, there bool) {
	value, err := layout.Get(r.Txn, key)
	return value, value != nil || err != nil
}

// graphOf returns the graph of a run. The graph is named by the run's head, or else by a checkpoint, or
// else by the list index.
func (one *runRepair) graphOf(first []byte) (*machine.Graph, error) {
	if st := one.known(); st != nil {
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

// known returns the stored head of the run. If the head cannot be read, it returns a checkpoint. If
// neither can be read, it returns nil.
func (one *runRepair) known() *machine.State {
	if st, err := layout.StoredHead(one.Txn, one.Ns, one.Prover.Run); err == nil && st.RunID == one.Prover.Run {
		return st
	}
	p := layout.RunKey(nil, layout.KindSnapshot, one.Ns, one.Prover.Run)
	it := one.Txn.Scan(kv.Range{Prefix: p})
	defer it.Close()
	for it.Rewind(); layout.Has(it, p); it.Next() {
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

// strays removes the rows that no entry makes, except the rows of broken runs.
func (r *repairer) strays() error {
	for _, kind := range Repaired {
		it := r.Txn.Scan(kv.Range{Prefix: []byte{kind}})
		for it.Rewind(); layout.Has(it, []byte{kind}); it.Next() {
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

// brokens reports whether the row belongs, or could belong, to a broken run.
func (r *repairer) brokens(item *kv.Iterator) bool {
	if len(r.broken) == 0 {
		return false
	}
	ns, run, err := ownerOf(item)
	return err != nil || r.broken[queueRun{ns, run}]
}

// ownerOf returns the run whose entries made a row.
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

// watermarks removes every watermark that is later than a row of its queue. Without a watermark, a scan
// begins at the start of the queue.
func (r *repairer) watermarks() error {
	err := r.Each([]byte{layout.KindWatermark}, func(key, value []byte) error {
		at, err := codec.DecodeNumber(value)
		if err == nil && len(key) == 6 {
			p := layout.QueuePrefix(layout.QueueID{Ns: binary.BigEndian.Uint32(key[1:]), Kind: key[5]})
			it := r.Txn.Scan(kv.Range{Prefix: p})
			defer it.Close()
			if it.Rewind(); !layout.Has(it, p) || layout.DueAt(it.Key()[len(p):]) >= int64(at) {
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

// checkCursorRows keeps the rows of cursors that agree with the entries and removes the others. It
// records which cursors are missing.
func (r *repairer) checkCursorRows() error {
	next := map[uint32]uint64{}
	it := r.Txn.Scan(kv.Range{Prefix: []byte{layout.KindCursor}})
	defer it.Close()
	for it.Rewind(); layout.Has(it, []byte{layout.KindCursor}); it.Next() {
		key := it.KeyCopy()
		value, err := layout.CopyOf(it)
		first, ok := r.sound(key, value)
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
	r.ends(next)
	return r.Ended()
}

// ends adds a gap after the last row of cursors of each namespace, because entries may follow it.
func (r *repairer) ends(next map[uint32]uint64) {
	for ns, last := range next {
		r.gaps[ns] = append(r.gaps[ns], gap{from: last + 1, to: math.MaxUint64, found: map[uint64]codec.EntryRef{}})
	}
}

// sound reports whether every entry in a row of cursors has the right cursor. first is the cursor
// of its first entry.
func (r *repairer) sound(key, value []byte) (first uint64, ok bool) {
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
		if r.placed(ns, first+uint64(i), place) != nil {
			return 0, false
		}
	}
	return first, true
}

// noteMissing records an entry that no row of cursors refers to.
func (r *repairer) noteMissing(ns uint32, run string, value []byte) {
	cursor := codec.EntryCursor(value)
	first, _, err := codec.EntrySpan(value)
	if cursor == 0 || err != nil {
		return
	}
	if r.gaps[ns] == nil {
		r.ends(map[uint32]uint64{ns: 0})
	}
	for i := range r.gaps[ns] {
		if g := &r.gaps[ns][i]; cursor >= g.from && cursor <= g.to {
			g.found[cursor] = codec.EntryRef{Run: run, First: first}
		}
	}
}

// fill writes the missing rows of cursors. No data shows which entries formed one group, so each gap
// becomes one row, or several rows of at most maxCursorEntries.
func (r *repairer) fill() error {
	for ns, gaps := range r.gaps {
		for i := range gaps {
			if err := r.fillGap(ns, &gaps[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxCursorEntries is the maximum number of entries in one row of cursors that a repair writes.
// repairBytes and repairKeys are the approximate limits of one commit, in bytes and in keys.
const (
	maxCursorEntries = 4096
	repairBytes      = 2 << 20
	repairKeys       = 4096
)

func (r *repairer) fillGap(ns uint32, g *gap) error {
	r.fillDeleted(ns, g)
	var row []byte
	for n := range uint64(len(g.found)) {
		cursor := g.from + n
		place, ok := g.found[cursor]
		if !ok {
			r.out.Broken = append(r.out.Broken, &Fault{Namespace: ns, Row: "cursor", Detail: fmt.Sprintf("%d has no entry", cursor)})
			return nil
		}
		row = codec.AppendEntryRef(row, place.Run, max(place.First, 1))
		if n+1 < uint64(len(g.found)) && (n+1)%maxCursorEntries != 0 {
			continue
		}
		key := layout.CursorKey(nil, ns, cursor)
		count := wasMade
		if _, there := r.stored(key); there {
			// The row with this key was counted as removed above.
			r.out.Rows["cursor"].Removed--
			count = wasChanged
		}
		if err := r.put(layout.Op{Key: key, Value: row}, count); err != nil {
			return err
		}
		row = nil
	}
	if g.to != math.MaxUint64 && uint64(len(g.found)) != g.to-g.from+1 {
		r.out.Broken = append(r.out.Broken, &Fault{Namespace: ns, Row: "cursor", Detail: fmt.Sprintf("%d entries are missing before %d", g.to-g.from+1-uint64(len(g.found)), g.to+1)})
	}
	return nil
}
