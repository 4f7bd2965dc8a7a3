package check

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Salvaged is the result of [Salvage].
type Salvaged struct {
	// Report counts the rows of the resulting store, which a check has found to be correct.
	Report Report
	// LeftOut contains one fault for each run that was removed because its entries are incomplete, in the order of
	// namespaces and ids.
	LeftOut []*Fault
	// Doubtful contains one fault for each kept run that may have lost its newest records: the run has not ended, and
	// commits after its last record are lost that may have belonged to any run.
	Doubtful []*Fault
	// Removed contains one fault for each other row that was removed because it is incomplete or refers to something
	// that no longer exists.
	Removed []*Fault
	// Named are the namespaces that got a new name because the row with their name was lost.
	Named []string
}

// Salvage makes a consistent store from one that has only a part of its rows, because they come from a damaged
// directory. A run is kept if it has all of its entries, if their hash chain is valid, and if they can be replayed with
// the run's pack. Its other rows are rebuilt. Any other run is removed completely: without its last records it would
// repeat effects that have already happened. The rows of its business keys are kept, so that no other run repeats these
// effects. Salvage also removes other incomplete rows, and turns the cursors of lost entries into gaps. The store must
// have no other writer.
//
// A run whose last entries are lost can be recognized only if another row tells of them: its head, the order of all
// entries, or a used request id. Otherwise it stays with the entries that are there, and is listed as doubtful. lost
// means that commits may be lost that no row tells of. last is the last entry that the store acknowledged: the cursors of its
// namespace end with it. If its cursor is 0, it is not known.
func Salvage(ctx context.Context, view View, write func(ops []layout.Op) error, graphs Graphs, lost bool, last layout.LastEntry) (Salvaged, error) {
	s := &salvager{lost: lost, last: last, seen: map[uint32]uint64{}, unnamed: map[uint32][]span{}, ended: ctx.Err, view: view, write: write, graphs: graphs, runs: map[queueRun]*Fault{}, deleted: map[queueRun]bool{}, bad: map[queueRun]bool{}}
	for _, pass := range []func() error{
		s.marks, s.knownRuns, s.cursors, s.countUnnamed, s.packs, s.packRefs, s.packNames, s.packDefaults, s.blobs, s.rest, s.deadLetters, s.namespaces,
	} {
		if err := s.pass(pass); err != nil {
			return s.out, err
		}
	}
	if err := s.rebuildAll(ctx); err != nil {
		return s.out, err
	}
	return s.out, errors.Join(s.pass(s.leftOut), s.pass(s.doubtful))
}

// span is a range of cursors, from and to included. entries is the number of existing entries whose cursor is in the
// range.
type span struct{ from, to, entries uint64 }

// salvager is one running salvage.
type salvager struct {
	Checker
	ended  func() error
	view   View
	write  func(ops []layout.Op) error
	graphs Graphs
	out    Salvaged
	ops    []layout.Op
	bytes  int
	// runs contains every run that a row refers to. The value is the reason why the run is left out, or nil if it is
	// kept.
	runs map[queueRun]*Fault
	// unnamed are, for each namespace, the ranges of cursors that no cursor row contains.
	unnamed map[uint32][]span
	// seen is the last cursor of each namespace that a row of the order of all entries has.
	seen map[uint32]uint64
	// lost and last are the arguments of Salvage.
	lost bool
	last layout.LastEntry
	// deleted are the runs that had been deleted. bad are the runs that must be removed.
	deleted, bad map[queueRun]bool
}

// pass calls do with a view of the current state of the store, and then writes the ops that do has added.
func (s *salvager) pass(do func() error) error {
	return s.view(func(txn *layout.Txn) error {
		s.Checker = Checker{Ended: s.ended, Txn: txn, graphs: s.graphs, report: &Report{}}
		if err := do(); err != nil {
			return err
		}
		return s.flush()
	})
}

func (s *salvager) put(op layout.Op) error {
	s.ops = append(s.ops, op)
	s.bytes += len(op.Key) + len(op.Value)
	if s.bytes < repairBytes && len(s.ops) < repairKeys {
		return nil
	}
	return s.flush()
}

func (s *salvager) flush() error {
	if err := s.Txn.Err(); err != nil || len(s.ops) == 0 {
		return err
	}
	ops := s.ops
	s.ops, s.bytes = nil, 0
	return s.write(ops)
}

// remove deletes a row that belongs to no run, and adds it to the list of removed rows.
func (s *salvager) remove(key []byte, format string, args ...any) error {
	f := &Fault{Row: layout.Kinds[key[0]].Row, Detail: fmt.Sprintf(format, args...)}
	if len(key) >= 5 && key[0] != layout.KindPack {
		f.Namespace = binary.BigEndian.Uint32(key[1:])
	}
	s.out.Removed = append(s.out.Removed, f)
	return s.put(layout.Op{Key: key, Delete: true})
}

// lose records that the run of a fault is left out. If the run has a reason already, it keeps the first one.
func (s *salvager) lose(f *Fault) {
	run := queueRun{f.Namespace, f.Run}
	s.bad[run] = true
	s.runs[run] = cmp.Or(s.runs[run], f)
}

// marks completes the removals and imports that were interrupted: it removes the rows of their runs.
func (s *salvager) marks() error {
	err := s.Each([]byte{layout.KindDrop}, func(key, _ []byte) error {
		p, err := layout.DroppedPrefix(key)
		if err != nil {
			return s.remove(key, "%v", err)
		}
		if ns, run, err := layout.RunOf(p); err == nil && p[0] == layout.KindDeleted {
			s.bad[queueRun{ns, run}], s.deleted[queueRun{ns, run}] = true, true
		} else if err := s.keys(p, func(key []byte) error { return s.put(layout.Op{Key: key, Delete: true}) }); err != nil {
			return err
		}
		return s.put(layout.Op{Key: key, Delete: true})
	})
	if err != nil {
		return err
	}
	err = s.keys([]byte{layout.KindImport}, func(key []byte) error {
		if ns, run, err := layout.RunOf(key); err == nil {
			s.lose(&Fault{Namespace: ns, Run: run, Row: "import", Detail: "its import had not ended"})
		}
		return s.put(layout.Op{Key: key, Delete: true})
	})
	if err != nil {
		return err
	}
	return s.Each([]byte{layout.KindDeleted}, func(key, value []byte) error {
		ns, run, err := layout.RunOf(key)
		if err == nil {
			_, err = codec.DecodeDeleted(value)
		}
		if err != nil {
			return s.remove(key, "%v", err)
		}
		s.deleted[queueRun{ns, run}] = true
		return nil
	})
}

// keys calls visit with a copy of every key that begins with p.
func (s *salvager) keys(p []byte, visit func(key []byte) error) error {
	it := s.Txn.Scan(kv.Range{Prefix: p, KeysOnly: true})
	defer it.Close()
	for it.Rewind(); layout.AtPrefix(it, p); it.Next() {
		if err := errors.Join(s.Ended(), visit(it.KeyCopy())); err != nil {
			return err
		}
	}
	return nil
}

// runKinds are the kinds of rows that name the run to which they belong.
var runKinds = append([]byte{layout.KindEntry, layout.KindErased, layout.KindSubscription, layout.KindDeadLetter}, RepairedKinds...)

// eachOwned calls visit for every row that belongs to a run. A row whose run cannot be found is removed.
func (s *salvager) eachOwned(visit func(key []byte, of queueRun) error) error {
	for _, kind := range runKinds {
		it := s.Txn.Scan(kv.Range{Prefix: []byte{kind}})
		for it.Rewind(); layout.AtPrefix(it, []byte{kind}); it.Next() {
			ns, run, err := ownerOf(it)
			if err == nil {
				err = errors.Join(s.Ended(), visit(it.KeyCopy(), queueRun{ns, run}))
			} else {
				err = s.remove(it.KeyCopy(), "%v", err)
			}
			if err != nil {
				it.Close()
				return err
			}
		}
		it.Close()
	}
	return nil
}

// knownRuns records the run of every row. A deleted run normally has no other rows. If it has some, the row that
// removed them was lost, so the run must be removed again. This does not apply to an imported run, which may have the
// id of a deleted run.
func (s *salvager) knownRuns() error {
	return s.eachOwned(func(key []byte, of queueRun) error {
		if of.run == "" {
			return nil // A subscription to all runs.
		}
		if _, known := s.runs[of]; !known {
			s.runs[of] = nil
		}
		if !s.deleted[of] || s.bad[of] || key[0] == layout.KindCallerID {
			return nil
		}
		entry, err := layout.Get(s.Txn, layout.EntryKey(of.ns, of.run, 1))
		s.bad[of] = entry == nil || codec.EntryCursor(entry) != 0
		return err
	})
}

// cursors removes the cursor rows that are wrong, so that the repair writes them again. If a cursor row refers to an
// entry that does not exist, the entry was lost, so its run is left out.
func (s *salvager) cursors() error {
	next, seen := map[uint32]uint64{}, s.seen // next has the last cursor of the last right row.
	return s.Each([]byte{layout.KindCursor}, func(key, value []byte) error {
		places, err := codec.DecodeEntryRefs(value)
		if err != nil || len(key) != 13 || uint64(len(places)) > binary.BigEndian.Uint64(key[5:]) {
			return s.put(layout.Op{Key: key, Delete: true})
		}
		ns, last := binary.BigEndian.Uint32(key[1:]), binary.BigEndian.Uint64(key[5:])
		first := last + 1 - uint64(len(places))
		if first > seen[ns]+1 {
			s.unnamed[ns] = append(s.unnamed[ns], span{from: seen[ns] + 1, to: first - 1})
		}
		seen[ns] = max(seen[ns], last)
		right := first > next[ns]
		for i, place := range places {
			if place.Gap() {
				continue
			}
			entry, err := layout.Get(s.Txn, layout.EntryKey(ns, place.Run, place.First))
			if err != nil {
				return err
			}
			if of := (queueRun{ns, place.Run}); entry == nil && !s.deleted[of] {
				s.lose(&Fault{Namespace: ns, Run: place.Run, Seq: place.First, Row: "entry", Detail: "missing: the order of all entries has it"})
			}
			right = right && entry != nil && codec.EntryCursor(entry) == first+uint64(i)
		}
		if !right {
			return s.put(layout.Op{Key: key, Delete: true})
		}
		next[ns] = last
		return nil
	})
}

// countUnnamed counts the existing entries whose cursors no cursor row contains, because their cursor rows were lost.
func (s *salvager) countUnnamed() error {
	return s.eachEntry(func(ns uint32, _ []byte, cursor uint64) error {
		spans := s.unnamed[ns]
		i, _ := slices.BinarySearchFunc(spans, cursor, func(g span, cursor uint64) int { return cmp.Compare(g.to, cursor) })
		if i < len(spans) && spans[i].from <= cursor {
			spans[i].entries++
		}
		return nil
	})
}

// eachEntry calls visit with the namespace, the key and the cursor of each entry. The cursor of an imported entry is 0.
func (s *salvager) eachEntry(visit func(ns uint32, key []byte, cursor uint64) error) error {
	return s.Each([]byte{layout.KindEntry}, func(key, value []byte) error {
		return visit(binary.BigEndian.Uint32(key[1:]), key, codec.EntryCursor(value))
	})
}

// doubtful lists the runs that may have lost their newest records: the runs that have not ended, if their last record
// is older than a lost commit that may have belonged to any run.
func (s *salvager) doubtful() error {
	lost := map[uint32]uint64{}
	for ns, spans := range s.unnamed {
		for _, g := range spans {
			if g.entries <= g.to-g.from {
				lost[ns] = max(lost[ns], g.to)
			}
		}
	}
	ends := map[queueRun]uint64{}
	err := s.eachEntry(func(ns uint32, key []byte, cursor uint64) error {
		_, run, err := layout.RunOf(key)
		ends[queueRun{ns, run}] = cursor
		return err
	})
	if err != nil {
		return err
	}
	for of, cursor := range ends {
		if cursor == 0 || cursor >= lost[of.ns] && !s.endLost(of.ns) {
			continue
		}
		end, err := layout.EndOf(s.Txn, of.ns, of.run)
		if err != nil {
			return err
		}
		if !end.Head.Status.Terminal() {
			s.out.Doubtful = append(s.out.Doubtful, &Fault{Namespace: of.ns, Run: of.run, Seq: end.Last, Row: "entry", Detail: "later records may be lost: commits after it cannot be read, and nothing names their runs"})
		}
	}
	slices.SortFunc(s.out.Doubtful, byRun)
	return nil
}

// endLost reports whether the last entries of a namespace may be lost together with the rows that tell of them.
func (s *salvager) endLost(ns uint32) bool {
	return s.lost && (s.last.Cursor == 0 || ns != s.last.Ns || s.seen[ns] < s.last.Cursor)
}

func byRun(a, b *Fault) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Run, b.Run))
}

func (s *salvager) packs() error {
	return s.Each([]byte{layout.KindPack}, func(key, value []byte) error {
		row := machine.PackRow{Digest: string(key[1:])}
		if err := errors.Join(codec.DecodePackBytes(&row, value), layout.CheckPack(&row)); err != nil {
			return s.remove(key, "%s: %v", row.Digest, err)
		}
		return nil
	})
}

func (s *salvager) packRefs() error {
	return s.Each([]byte{layout.KindPackRef}, func(key, value []byte) error {
		row, err := codec.DecodePackName(value)
		if err != nil {
			return s.remove(key, "%v", err)
		}
		if there, err := s.Txn.Has(layout.PackKey(row.Digest)); err != nil || there {
			return err
		}
		return s.remove(key, "%s@%s: the bytes of %s are lost", row.ID, row.Version, row.Digest)
	})
}

// packNames removes the names of packs whose bytes are lost. A lost row that refers to a pack by its digest is written
// again, because it has the same value as the row of the name.
func (s *salvager) packNames() error {
	return s.Each([]byte{layout.KindPackName}, func(key, value []byte) error {
		row, err := codec.DecodePackName(value)
		ns := binary.BigEndian.Uint32(key[1:])
		if err != nil || !bytes.Equal(key, layout.PackNameKey(ns, row.ID, row.Version)) {
			return s.remove(key, "malformed: %v", err)
		}
		there, err := s.Txn.Has(layout.PackKey(row.Digest))
		if err != nil {
			return err
		}
		if !there {
			return s.remove(key, "%s@%s: the bytes of %s are lost", row.ID, row.Version, row.Digest)
		}
		ref := layout.PackRefKey(ns, row.Digest)
		if there, err := s.Txn.Has(ref); err != nil || there {
			return err
		}
		return s.put(layout.Op{Key: ref, Value: value})
	})
}

func (s *salvager) packDefaults() error {
	return s.Each([]byte{layout.KindPackBare}, func(key, value []byte) error {
		ns, id, err := layout.RunOf(key)
		if err != nil {
			return s.remove(key, "%v", err)
		}
		version := string(value[min(1, len(value)):])
		if there, err := s.Txn.Has(layout.PackNameKey(ns, id, version)); err != nil || there {
			return err
		}
		return s.remove(key, "%s: its version %s is lost", id, version)
	})
}

// blobs removes incomplete blobs and uploads, and pieces that belong to no blob or upload.
func (s *salvager) blobs() error {
	owned := map[string]bool{}
	for _, kind := range []byte{layout.KindBlob, layout.KindUpload} {
		err := s.Each([]byte{kind}, func(key, value []byte) error {
			fault, err := s.piecesOf(key, value, owned)
			if err == nil && fault != nil {
				err = s.remove(key, "%x: %s", key[5:], fault.Detail)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	orphans := 0
	err := s.keys([]byte{layout.KindBlobPiece}, func(key []byte) error {
		if owned[string(key)] {
			return nil
		}
		orphans++
		return s.put(layout.Op{Key: key, Delete: true})
	})
	if orphans > 0 {
		s.out.Removed = append(s.out.Removed, &Fault{Row: layout.Kinds[layout.KindBlobPiece].Row, Detail: fmt.Sprintf("%d pieces belong to no blob that is whole", orphans)})
	}
	return err
}

// piecesOf checks the pieces of a blob or an upload. If all of them exist, it adds their keys to owned.
func (s *salvager) piecesOf(key, value []byte, owned map[string]bool) (*Fault, error) {
	ns, blob := binary.BigEndian.Uint32(key[1:]), key[0] == layout.KindBlob
	var of machine.Upload
	var err error
	if blob {
		var b machine.Blob
		b, err = codec.DecodeBlob(value)
		of = machine.Upload{Size: b.Size, Chunks: b.Chunks, Pieces: b.Pieces}
	} else {
		of, err = codec.DecodeUpload(value)
	}
	if err != nil {
		return &Fault{Detail: err.Error()}, nil
	}
	own := map[string]bool{}
	sum, err := s.pieces(layout.Kinds[key[0]].Row, ns, of, own)
	if fault, ok := errors.AsType[*Fault](err); ok {
		return fault, nil
	}
	if err != nil {
		return nil, err
	}
	if blob && !bytes.Equal(sum[:], key[5:]) {
		return &Fault{Detail: fmt.Sprintf("its bytes have the hash %x", sum)}, nil
	}
	for piece := range own {
		if owned[piece] {
			return &Fault{Detail: "its pieces belong to another one"}, nil
		}
	}
	maps.Copy(owned, own)
	return nil, nil
}

// rest removes the rows of all other kinds that cannot be decoded.
func (s *salvager) rest() error {
	decode := map[byte]func(key, value []byte) error{
		layout.KindSubscription: func(key, value []byte) error {
			_, _, err := layout.ReadSubscriptionKey(key)
			_, bad := codec.DecodeSubscription(value)
			return errors.Join(err, bad)
		},
		layout.KindSchedule: func(key, value []byte) error {
			_, _, err := layout.ReadScheduleKey(key)
			_, bad := codec.DecodeSchedule(value)
			return errors.Join(err, bad)
		},
		layout.KindUsage: func(key, value []byte) error {
			if layout.IsUsageSince(key) {
				// Rollups may be lost. The next one begins a new time from which on they are complete.
				return s.put(layout.Op{Key: key, Delete: true})
			}
			_, err := layout.ReadUsage(key, value)
			return err
		},
		layout.KindEffect: func(key, value []byte) error {
			_, _, err := effectKey(key)
			_, bad := codec.DecodeEffect(value)
			return errors.Join(err, bad)
		},
		layout.KindErased: func(_, value []byte) error {
			_, err := codec.DecodeErased(value)
			return err
		},
	}
	for _, kind := range slices.Sorted(maps.Keys(decode)) {
		err := s.Each([]byte{kind}, func(key, value []byte) error {
			if err := decode[kind](key, value); err != nil {
				return s.remove(key, "%v", err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// deadLetters removes the dead letters whose subscription was lost.
func (s *salvager) deadLetters() error {
	return s.Each([]byte{layout.KindDeadLetter}, func(key, value []byte) error {
		of, rest, err := layout.ReadSubscriptionKey(key)
		if err == nil && len(rest) != 8 {
			err = fmt.Errorf("malformed key %x", key)
		}
		if err == nil {
			_, err = codec.DecodeDeadLetter(value)
		}
		if err != nil {
			return s.remove(key, "%v", err)
		}
		if there, err := s.Txn.Has(layout.SubscriptionKey(layout.KindSubscription, of)); err != nil || there {
			return err
		}
		return s.remove(key, "its subscription %q is lost", of.ID)
	})
}

// namespaces gives a new name to each namespace whose name was lost. The number of a namespace is in the keys of its
// rows. Without a name, the next new namespace could get this number, and with it the rows.
func (s *salvager) namespaces() error {
	names, taken := map[string]bool{}, map[uint32]bool{0: true}
	err := s.Each([]byte{layout.KindNamespace}, func(key, value []byte) error {
		name, number, err := layout.ReadNamespace(key, value)
		if err != nil || taken[number] {
			return s.remove(key, "%s: its number %d is malformed or belongs to another one", name, number)
		}
		names[name], taken[number] = true, true
		return nil
	})
	if err != nil {
		return err
	}
	it := s.Txn.Scan(kv.Range{KeysOnly: true})
	defer it.Close()
	for it.Rewind(); it.Valid(); {
		key := it.KeyCopy()
		if key[0] == layout.KindPack || key[0] == layout.KindFormat || len(key) < 5 {
			it.Seek([]byte{key[0] + 1})
			continue
		}
		ns := binary.BigEndian.Uint32(key[1:])
		if !taken[ns] {
			name := fmt.Sprintf("salvaged-%d", ns)
			for names[name] {
				name += "-"
			}
			names[name], taken[ns] = true, true
			s.out.Named = append(s.out.Named, name)
			if err := s.put(layout.Op{Key: layout.NamespaceKey(name), Value: codec.EncodeNumber(uint64(ns))}); err != nil {
				return err
			}
		}
		if ns++; ns == 0 {
			it.Seek([]byte{key[0] + 1})
			continue
		}
		it.Seek(layout.Prefix(nil, key[0], ns))
	}
	return nil
}

// rebuildAll removes the incomplete runs and rebuilds the rows of all others, until a check of the whole store
// finds no fault.
func (s *salvager) rebuildAll(ctx context.Context) error {
	for {
		if err := s.dropBad(); err != nil {
			return err
		}
		done, err := rebuild(ctx, s.view, s.write, s.graphs, true)
		if err != nil {
			return err
		}
		for _, fault := range done.Broken {
			if fault.Run == "" || s.runs[queueRun{fault.Namespace, fault.Run}] != nil {
				return fault
			}
			s.lose(fault)
		}
		if len(s.bad) > 0 {
			continue
		}
		s.out.Report, err = Check(ctx, s.view, s.graphs)
		fault, ok := errors.AsType[*Fault](err)
		if !ok || fault.Run == "" || s.runs[queueRun{fault.Namespace, fault.Run}] != nil {
			return err
		}
		s.lose(fault)
	}
}

// dropBad removes all rows of the runs that are left out, except those of their business keys. The id that started a
// deleted run stays reserved.
func (s *salvager) dropBad() error {
	if len(s.bad) == 0 {
		return nil
	}
	err := s.pass(func() error {
		return s.eachOwned(func(key []byte, of queueRun) error {
			if !s.bad[of] || s.deleted[of] && key[0] == layout.KindCallerID {
				return nil
			}
			return s.put(layout.Op{Key: key, Delete: true})
		})
	})
	clear(s.bad)
	return err
}

// leftOut lists the runs that a row referred to and that the resulting store does not contain.
func (s *salvager) leftOut() error {
	for of, fault := range s.runs {
		there, err := layout.RunExists(s.Txn, of.ns, of.run)
		if err != nil {
			return err
		}
		if there || s.deleted[of] {
			continue
		}
		if fault == nil {
			fault = &Fault{Namespace: of.ns, Run: of.run, Row: "entry", Detail: "none of its records can be read"}
		}
		s.out.LeftOut = append(s.out.LeftOut, fault)
	}
	slices.SortFunc(s.out.LeftOut, byRun)
	return nil
}
