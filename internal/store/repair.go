package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/store/codec"
)

// Repair counts what a repair has done.
type Repair struct {
	// Runs were replayed from their first entry on, Entries are theirs.
	Runs, Entries int64
	// Rows are the rows that were not as their entries make them, by kind.
	Rows map[string]*RowRepair
	// Broken are the runs, one fault each, whose entries themselves are not in order, or
	// whose pack is not known any more: nothing of them was changed.
	Broken []*Fault
}

// RowRepair counts rows of one kind.
type RowRepair struct{ Made, Changed, Removed int64 }

// Repair makes every row anew that follows from entries and is not what they make:
// heads, checkpoints, ids, artifact and message rows, timers, outgoing work, turns to
// offer, list entries, references to blobs, cursors. It never writes an entry. What is
// held of a step's outgoing work stays, and so does a cancellation that waits; one that
// is lost cannot be told from one that was sent.
//
// Open the store with Options.Repair, and nobody else may use it. Without graphs of a
// run's pack the run is among the broken.
func (s *Store) Repair(ctx context.Context, graphs Graphs) (Repair, error) {
	r := &repairer{
		checker: checker{ended: ctx.Err, store: s, graphs: graphs, report: &Report{}},
		write:   func(ops []Op) error { return s.write(ctx, &Writes{entry: -1, ops: ops}) },
		seed:    maphash.MakeSeed(), wanted: map[uint64]struct{}{}, broken: map[queueRun]bool{},
		gaps: map[uint32][]gap{}, out: Repair{Rows: map[string]*RowRepair{}},
	}
	err := s.view(func(txn *badger.Txn) error {
		r.txn = txn
		for _, step := range []func() error{r.places, r.runs, r.fill, r.strays} {
			if err := step(); err != nil {
				return err
			}
		}
		return r.flush()
	})
	if err == nil {
		err = s.view(func(txn *badger.Txn) error {
			r.txn = txn
			return r.watermarks()
		})
	}
	return r.out, err
}

// queueRun names a run.
type queueRun struct {
	ns  uint32
	run string
}

// gap is a range of cursors that no sound row has, to its last one included.
type gap struct {
	from, to uint64
	found    map[uint64]codec.Place
}

// repairer is one repair under way, over one snapshot.
type repairer struct {
	checker
	// write stores ops in a commit of their own.
	write func(ops []Op) error
	seed  maphash.Seed
	out   Repair
	// wanted are the hashes of all keys that the entries make, and may have made.
	wanted map[uint64]struct{}
	broken map[queueRun]bool
	gaps   map[uint32][]gap
	ops    []Op
	bytes  int
	// digests are the packs of runs as list entries have them, nil until asked for.
	digests map[queueRun]string
}

// repaired are the kinds of rows that entries make, besides cursors.
var repaired = []byte{
	kindHead, kindSnapshot, kindArtifact, kindMessage, kindRunID, kindCallerID,
	kindTimer, kindOutbox, kindReady, kindIndex, kindBlobRef,
}

func (r *repairer) hash(key []byte) uint64 { return maphash.Bytes(r.seed, key) }

// put sets or deletes a row, in commits of their own.
func (r *repairer) put(op Op, count func(*RowRepair)) error {
	if op.Key[0] == kindEntry {
		return fmt.Errorf("a repair writes no entry: %x", op.Key)
	}
	row := kinds[op.Key[0]].row
	if r.out.Rows[row] == nil {
		r.out.Rows[row] = &RowRepair{}
	}
	count(r.out.Rows[row])
	r.ops = append(r.ops, op)
	r.bytes += len(op.Key) + len(op.Value)
	if r.bytes < importBytes && len(r.ops) < importKeys {
		return nil
	}
	return r.flush()
}

func (r *repairer) flush() error {
	if len(r.ops) == 0 {
		return nil
	}
	ops := r.ops
	r.ops, r.bytes = nil, 0
	return r.write(ops)
}

func made(c *RowRepair)    { c.Made++ }
func changed(c *RowRepair) { c.Changed++ }
func removed(c *RowRepair) { c.Removed++ }

// runs replays every run and compares its rows.
func (r *repairer) runs() error {
	it := r.txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kindEntry}})
	defer it.Close()
	for it.Rewind(); has(it, []byte{kindEntry}); {
		ns, run, err := runOf(it.Item().Key())
		if err != nil {
			return err
		}
		if err := r.replayRun(it, ns, run); err != nil {
			return err
		}
	}
	return nil
}

// replayRun takes the entries of one run from an iterator that stands at the first.
func (r *repairer) replayRun(it *badger.Iterator, ns uint32, run string) error {
	p := runKey(nil, kindEntry, ns, run)
	one := &runRepair{repairer: r, prover: prover{ns: ns, run: run}, rows: map[string][]byte{}}
	var fault error
	for ; has(it, p); it.Next() {
		if err := r.ended(); err != nil {
			return err
		}
		value, err := copyOf(it.Item())
		if err == nil {
			r.place(ns, run, value)
			if fault == nil {
				fault = one.entry(value)
			}
		} else if fault == nil {
			fault = err
		}
	}
	if fault == nil {
		r.out.Runs++
		r.out.Entries += one.entries
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

// runRepair folds what the entries of a run make into the rows that there must be.
type runRepair struct {
	*repairer
	prover
	// rows by key; nil: it may be there.
	rows     map[string][]byte
	imported bool
}

func (one *runRepair) entry(value []byte) error {
	if one.seq == 0 {
		one.imported = codec.EntryCursor(value) == 0
		var err error
		if one.prover.graph, err = one.graphOf(value); err != nil {
			return one.fault("entry", 1, "its pack: %v", err)
		}
	}
	_, w, err := one.next(value)
	if err != nil {
		return err
	}
	for i := range w.ops {
		one.fold(&w.ops[i])
	}
	return nil
}

func (one *runRepair) fold(op *Op) {
	switch kind := op.Key[0]; {
	case kind == kindEntry:
	case one.imported && kind != kindSnapshot && kind != kindArtifact && kind != kindMessage && kind != kindBlobRef:
	case op.Delete:
		delete(one.rows, string(op.Key))
	case kind == kindOutbox && machine.OutboxKind(op.Key[5]) == machine.OutboxCancel:
		// It was sent, or waits, or is lost.
		one.rows[string(op.Key)] = nil
	default:
		one.rows[string(op.Key)] = op.Value
	}
}

// end adds the rows of an imported run, which has no others.
func (one *runRepair) end() {
	if !one.imported {
		return
	}
	st := *one.state
	st.Imported = true
	w := &Writes{ns: one.ns, runID: one.prover.run, unlisted: st.Unlisted}
	w.listAll()
	for i := range w.ops {
		one.rows[string(w.ops[i].Key)] = w.ops[i].Value
	}
	one.rows[string(headKey(one.ns, one.prover.run))] = codec.EncodeHead(&st, one.chain)
	for _, c := range rules.Indexes(&st) {
		one.rows[string(indexKey(nil, one.ns, one.prover.run, &c))] = codec.Mark
	}
}

// compare writes the rows that are not as they must be.
func (one *runRepair) compare() error {
	one.end()
	for key, want := range one.rows {
		one.wanted[one.hash([]byte(key))] = struct{}{}
		if want == nil {
			continue
		}
		got, there := one.stored([]byte(key))
		if !there {
			if err := one.put(Op{Key: []byte(key), Value: want}, made); err != nil {
				return err
			}
			continue
		}
		if bytes.Equal(got, want) || key[0] == kindOutbox && held(got) {
			continue
		}
		if err := one.put(Op{Key: []byte(key), Value: want}, changed); err != nil {
			return err
		}
	}
	return nil
}

// held: the row says who holds a step, which is in no entry.
func held(value []byte) bool {
	_, err := codec.DecodeHolder(value)
	return err == nil
}

// stored reads a row; one whose value is damaged has none.
func (r *repairer) stored(key []byte) (value []byte, there bool) {
	value, err := get(r.txn, key)
	return value, value != nil || err != nil
}

// graphOf finds the graph of a run: its head names it, or a copy of it, or the list.
func (one *runRepair) graphOf(first []byte) (*machine.Graph, error) {
	if st := one.known(); st != nil {
		return one.graphs(st.Digest, st.Entry, st.Agent, st.EntryOverride)
	}
	e, err := codec.DecodeEntry(one.prover.run, bytes.Clone(first))
	if err != nil {
		return nil, err
	}
	digest, err := one.digest(one.ns, one.prover.run)
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

// known is the stored head of the run or its newest checkpoint, nil if neither is read.
func (one *runRepair) known() *machine.State {
	if st, err := storedHead(one.txn, one.ns, one.prover.run); err == nil && st.RunID == one.prover.run {
		return st
	}
	p := runKey(nil, kindSnapshot, one.ns, one.prover.run)
	it := one.txn.NewIterator(badger.IteratorOptions{Prefix: p})
	defer it.Close()
	for it.Rewind(); has(it, p); it.Next() {
		value, err := copyOf(it.Item())
		if err != nil {
			continue
		}
		if st, err := codec.DecodeHead(value); err == nil && st.RunID == one.prover.run {
			return st
		}
	}
	return nil
}

// digest is the pack of a run as the list has it.
func (r *repairer) digest(ns uint32, run string) (string, error) {
	if r.digests == nil {
		r.digests = map[queueRun]string{}
		err := r.each([]byte{kindIndex}, func(key, _ []byte) error {
			ns, index, err := runOf(key)
			if err != nil || index != "pack" {
				return err
			}
			value, run, err := taskRow(key, ns)
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

// strays removes the rows that no entry makes, but those of broken runs.
func (r *repairer) strays() error {
	for _, kind := range repaired {
		it := r.txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kind}})
		for it.Rewind(); has(it, []byte{kind}); it.Next() {
			key := it.Item().KeyCopy(nil)
			if _, ok := r.wanted[r.hash(key)]; ok || r.brokens(it.Item()) {
				continue
			}
			if err := r.put(Op{Key: key, Delete: true}, removed); err != nil {
				it.Close()
				return err
			}
		}
		it.Close()
	}
	return nil
}

// brokens: the row belongs to a broken run, or may.
func (r *repairer) brokens(item *badger.Item) bool {
	if len(r.broken) == 0 {
		return false
	}
	ns, run, err := ownerOf(item)
	return err != nil || r.broken[queueRun{ns, run}]
}

// ownerOf is the run that a row of entries belongs to.
func ownerOf(item *badger.Item) (ns uint32, run string, err error) {
	key := item.Key()
	ns = binary.BigEndian.Uint32(key[1:5])
	switch key[0] {
	case kindTimer:
		t, err := readTimer(key)
		return ns, t.RunID, err
	case kindOutbox:
		o, err := readOutbox(key)
		return ns, o.RunID, err
	case kindIndex:
		_, run, err = taskRow(key, ns)
		return ns, run, err
	case kindBlobRef:
		run, _, ok := cutName(key[min(len(key), 5+32):])
		if !ok {
			err = fmt.Errorf("malformed key %x", key)
		}
		return ns, run, err
	case kindCallerID:
		err = valueOf(item, func(v []byte) error {
			d, err := codec.DecodeDedupe(machine.Dedupe{Scope: machine.PerPrincipal}, v)
			run = d.RunID
			return err
		})
		return ns, run, err
	}
	return runOf(key)
}

// watermarks removes those that are above a row of their queue: without one a scan
// begins at the beginning.
func (r *repairer) watermarks() error {
	err := r.each([]byte{kindWatermark}, func(key, value []byte) error {
		at, err := codec.DecodeNumber(value)
		if err == nil && len(key) == 6 {
			p := queuePrefix(queueID{ns: binary.BigEndian.Uint32(key[1:]), kind: key[5]})
			it := r.txn.NewIterator(badger.IteratorOptions{Prefix: p})
			defer it.Close()
			if it.Rewind(); !has(it, p) || dueAt(it.Item().Key()[len(p):]) >= int64(at) {
				return nil
			}
		}
		return r.put(Op{Key: key, Delete: true}, removed)
	})
	if err != nil {
		return err
	}
	return r.flush()
}

// places keeps the rows of cursors that are as the entries have it, removes the others
// and notes what is missing.
func (r *repairer) places() error {
	next := map[uint32]uint64{}
	it := r.txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kindCursor}})
	defer it.Close()
	for it.Rewind(); has(it, []byte{kindCursor}); it.Next() {
		key := it.Item().KeyCopy(nil)
		value, err := copyOf(it.Item())
		first, ok := r.sound(key, value)
		if err != nil || !ok {
			if err := r.put(Op{Key: key, Delete: true}, removed); err != nil {
				return err
			}
			continue
		}
		ns, last := binary.BigEndian.Uint32(key[1:]), binary.BigEndian.Uint64(key[5:])
		if want := next[ns] + 1; first > want {
			r.gaps[ns] = append(r.gaps[ns], gap{from: want, to: first - 1, found: map[uint64]codec.Place{}})
		}
		next[ns] = last
	}
	r.ends(next)
	return r.ended()
}

// ends: behind the last row there may be entries, too.
func (r *repairer) ends(next map[uint32]uint64) {
	for ns, last := range next {
		r.gaps[ns] = append(r.gaps[ns], gap{from: last + 1, to: math.MaxUint64, found: map[uint64]codec.Place{}})
	}
}

// sound: every entry of the row knows its cursor. first is the first one's.
func (r *repairer) sound(key, value []byte) (first uint64, ok bool) {
	places, err := codec.DecodePlaces(value)
	if err != nil || len(key) != 13 {
		return 0, false
	}
	ns, last := binary.BigEndian.Uint32(key[1:]), binary.BigEndian.Uint64(key[5:])
	if uint64(len(places)) > last {
		return 0, false
	}
	first = last + 1 - uint64(len(places))
	for i, place := range places {
		if r.placed(ns, first+uint64(i), place) != nil {
			return 0, false
		}
	}
	return first, true
}

// place notes an entry whose cursor no row has.
func (r *repairer) place(ns uint32, run string, value []byte) {
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
			g.found[cursor] = codec.Place{Run: run, First: first}
		}
	}
}

// fill writes the rows that are missing. Which entries were one group is not known any
// more: each gap is one row, or several of placesMost.
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

const placesMost = 4096

func (r *repairer) fillGap(ns uint32, g *gap) error {
	var row []byte
	for n := range uint64(len(g.found)) {
		cursor := g.from + n
		place, ok := g.found[cursor]
		if !ok {
			r.out.Broken = append(r.out.Broken, &Fault{Namespace: ns, Row: "cursor", Detail: fmt.Sprintf("%d has no entry", cursor)})
			return nil
		}
		row = codec.AppendPlace(row, place.Run, place.First)
		if n+1 < uint64(len(g.found)) && (n+1)%placesMost != 0 {
			continue
		}
		key := cursorKey(nil, ns, cursor)
		count := made
		if _, there := r.stored(key); there {
			// What stood there was removed above.
			r.out.Rows["cursor"].Removed--
			count = changed
		}
		if err := r.put(Op{Key: key, Value: row}, count); err != nil {
			return err
		}
		row = nil
	}
	if g.to != math.MaxUint64 && uint64(len(g.found)) != g.to-g.from+1 {
		r.out.Broken = append(r.out.Broken, &Fault{Namespace: ns, Row: "cursor", Detail: fmt.Sprintf("%d entries are missing before %d", g.to-g.from+1-uint64(len(g.found)), g.to+1)})
	}
	return nil
}
