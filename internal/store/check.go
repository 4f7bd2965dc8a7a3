package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
)

// Graphs finds the graph that a run was started with.
type Graphs func(digest, entry, agent string, override bool) (*machine.Graph, error)

// Report counts what a check has proven to be in order.
type Report struct {
	Runs, Entries, Records, Checkpoints int64
	Artifacts, Messages, IDs            int64
	Timers, Outbox, Ready, Indexes      int64
	Packs                               int64
}

// Fault is the first thing that a check found wrong.
type Fault struct {
	Namespace uint32
	// Run and Seq say where; "" and 0 where the fault belongs to none.
	Run string
	Seq uint64
	// Row is the kind of the stored row: "entry", "head", "timer", ...
	Row    string
	Detail string
}

// Error reads "run 01J..., record 5: artifact: missing".
func (f *Fault) Error() string {
	where := f.Row
	if f.Run != "" {
		where = "run " + f.Run + ": " + where
		if f.Seq != 0 {
			where = fmt.Sprintf("run %s, record %d: %s", f.Run, f.Seq, f.Row)
		}
	}
	return where + ": " + f.Detail
}

// Check proves every invariant of the store as it was at the last synced commit
// and returns the first *[Fault]: each run's chain and dense seqs; that inputs,
// replayed through the machine, make exactly the stored records, rows, checkpoints
// and head; that timers, outbox, ready and list indexes are what the heads imply;
// that cursors are dense and point at entries; and that no row is without owner.
// It only reads and may run while the store works; it ends early when ctx does.
//
// With graphs nil nothing is replayed: chain, seqs, heads, cursors and owners are
// still checked.
func (s *Store) Check(ctx context.Context, graphs Graphs) (Report, error) {
	var report Report
	err := s.view(func(txn *badger.Txn) error {
		c := &checker{ended: ctx.Err, store: s, txn: txn, graphs: graphs, report: &report, entries: make(map[uint32]int64)}
		for _, step := range []func() error{c.runs, c.strays, c.cursors, c.queues, c.indexes, c.callers, c.packs, c.blobs, c.subscriptions, c.namespaces} {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
	return report, asFault(err)
}

// asFault makes damage that a check met a finding.
func asFault(err error) error {
	if d, ok := errors.AsType[*Damage](err); ok {
		return errors.Join(d.Fault(), err)
	}
	return err
}

// Fault is the damage as what a check found.
func (d *Damage) Fault() *Fault {
	row := d.File
	if row == "" {
		row = "value"
	}
	return &Fault{Row: row, Detail: d.Detail}
}

// checker is one check under way, over one snapshot.
type checker struct {
	// ended is the context's error.
	ended  func() error
	store  *Store
	txn    *badger.Txn
	graphs Graphs
	report *Report
	// entries counts the journal entries of each namespace.
	entries map[uint32]int64
	// last is the head that was asked for last: queue and index rows of one run
	// often lie together.
	last *machine.State
}

// each walks the rows under a prefix.
func (c *checker) each(p []byte, visit func(key, value []byte) error) error {
	it := c.txn.NewIterator(badger.IteratorOptions{Prefix: p})
	defer it.Close()
	for it.Rewind(); has(it, p); it.Next() {
		if err := c.ended(); err != nil {
			return err
		}
		value, err := copyOf(it.Item())
		if err != nil {
			return err
		}
		if err := visit(it.Item().KeyCopy(nil), value); err != nil {
			return err
		}
	}
	return nil
}

// perRun are the kinds of rows that begin with their run, in the order in which
// a run is checked: entries first, they say which of the others there must be.
var perRun = []byte{kindEntry, kindSnapshot, kindArtifact, kindMessage, kindRunID}

// runs checks every head with everything that belongs to its run. Heads and the
// rows of each kind come in the same order, so that one walk over each meets all
// rows, and a row that is passed over has no head.
func (c *checker) runs() error {
	walks := make([]*rowWalk, len(perRun))
	for i, kind := range perRun {
		walks[i] = &rowWalk{checker: c, kind: kind, it: c.txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kind}})}
		defer walks[i].it.Close()
		walks[i].it.Rewind()
	}
	err := c.each([]byte{kindHead}, func(key, value []byte) error {
		ns, run, err := runOf(key)
		if err != nil {
			return err
		}
		st, err := codec.DecodeHead(value)
		if err != nil {
			return &Fault{Namespace: ns, Run: run, Row: "head", Detail: err.Error()}
		}
		if st.RunID != run || st.Namespace != ns {
			return &Fault{Namespace: ns, Run: run, Row: "head", Detail: fmt.Sprintf("holds run %s of namespace %d", st.RunID, st.Namespace)}
		}
		c.report.Runs++
		r := &runCheck{checker: c, walks: walks, prover: prover{ns: ns, run: run}, head: st, value: value, rows: make(map[string]bool)}
		return r.check()
	})
	for _, w := range walks {
		if err == nil {
			err = w.upTo(nil)
		}
	}
	return err
}

// rowWalk steps through all rows of one kind, run by run.
type rowWalk struct {
	*checker
	kind byte
	it   *badger.Iterator
}

// upTo reports a row before the given key, nil = any row: its run has no head.
func (w *rowWalk) upTo(key []byte) error {
	if !has(w.it, []byte{w.kind}) || key != nil && bytes.Compare(w.it.Item().Key(), key) >= 0 {
		return nil
	}
	ns, run, err := runOf(w.it.Item().Key())
	if err != nil {
		return err
	}
	return &Fault{Namespace: ns, Run: run, Row: kinds[w.kind].row, Detail: "the run has no head"}
}

// of visits the rows of one run, which must be the next in order.
func (w *rowWalk) of(ns uint32, run string, visit func(key, value []byte) error) error {
	p := runKey(nil, w.kind, ns, run)
	if err := w.upTo(p); err != nil {
		return err
	}
	for ; has(w.it, p); w.it.Next() {
		if err := w.ended(); err != nil {
			return err
		}
		value, err := copyOf(w.it.Item())
		if err != nil {
			return err
		}
		if err := visit(w.it.Item().KeyCopy(nil), value); err != nil {
			return err
		}
	}
	return nil
}

// runOf reads namespace and run of a key that begins with them.
func runOf(key []byte) (uint32, string, error) {
	if len(key) > 5 {
		if run, _, ok := cutName(key[5:]); ok {
			return binary.BigEndian.Uint32(key[1:]), run, nil
		}
	}
	return 0, "", &Fault{Row: "key", Detail: fmt.Sprintf("malformed key %x", key)}
}

// strays looks for keys of no kind.
func (c *checker) strays() error {
	it := c.txn.NewIterator(badger.IteratorOptions{})
	defer it.Close()
	for it.Rewind(); it.Valid(); {
		kind := it.Item().Key()[0]
		if kinds[kind].row == "" && kind != kindFormat {
			return &Fault{Row: "key", Detail: fmt.Sprintf("of no known kind: %x", it.Item().Key())}
		}
		it.Seek([]byte{kind + 1})
	}
	return nil
}

// owner is the head that a row's run has.
func (c *checker) owner(row string, ns uint32, run string) (*machine.State, error) {
	if c.last != nil && c.last.RunID == run && c.last.Namespace == ns {
		return c.last, nil
	}
	value, err := get(c.txn, headKey(ns, run))
	if err != nil {
		return nil, err
	}
	if value == nil {
		return nil, &Fault{Namespace: ns, Run: run, Row: row, Detail: "the run has no head"}
	}
	c.last, err = codec.DecodeHead(value)
	return c.last, err
}

// graph is the graph of a run, nil when nothing is to be replayed.
func (c *checker) graph(st *machine.State) (*machine.Graph, error) {
	if c.graphs == nil {
		return nil, nil
	}
	g, err := c.graphs(st.Digest, st.Entry, st.Agent, st.EntryOverride)
	if err != nil {
		return nil, &Fault{Namespace: st.Namespace, Run: st.RunID, Row: "head", Detail: "its pack: " + err.Error()}
	}
	return g, nil
}
