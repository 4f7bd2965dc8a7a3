package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Graphs returns the graph with which a run was started.
type Graphs func(digest, entry, agent string, override bool) (*machine.Graph, error)

// Report counts the rows that a check has proven to be correct.
type Report struct {
	Runs, Entries, Records, Checkpoints int64
	Artifacts, Messages, IDs            int64
	Timers, Outbox, Ready, Indexes      int64
	Packs                               int64
	// Deleted counts the deleted runs that have remains in the store.
	Deleted int64
	// Erased counts the runs whose values were erased.
	Erased int64
	// Accounts counts the accounts that runs are charged to.
	Accounts int64
	// Keys counts the business keys that steps hold.
	Keys int64
}

// Fault is the first error that a check found in a store.
type Fault struct {
	Namespace uint32
	// Run and Seq are the run and the record of the fault. They are "" and 0 if the fault does not
	// belong to a run or a record.
	Run string
	Seq uint64
	// Row is the kind of the stored row, for example "entry", "head" or "timer".
	Row    string
	Detail string
}

// Error returns a text like "run 01J..., record 5: artifact: missing".
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

// Check proves every invariant of the store at the last synced commit. It returns the first *[Fault].
// The invariants are the following. Each run has a valid chain and dense seqs. The inputs of the run,
// replayed through the machine, make exactly the stored records, rows, checkpoints and head. Timers,
// outbox, ready and list indexes agree with the heads. Cursors are dense and refer to entries. Every
// row has an owner. Check only reads, and may run while the store is in use. It ends early when ctx
// ends.
//
// If graphs is nil, no run is replayed. Chains, seqs, heads, cursors and owners are still checked.
func Check(ctx context.Context, view View, graphs Graphs) (Report, error) {
	return Watched(view, graphs, func(*Report) error { return ctx.Err() })
}

// Watched does the same as [Check], and calls step for each row with the current counts. If step
// returns an error, the check ends.
func Watched(view View, graphs Graphs, step func(soFar *Report) error) (Report, error) {
	var report Report
	err := view(func(txn *layout.Txn) error {
		c := &Checker{Ended: func() error { return step(&report) }, Txn: txn, graphs: graphs, report: &report, entries: make(map[uint32]int64), sums: accountSums{}, effects: effectRows{}}
		for _, part := range []func() error{c.runs, c.strays, c.cursors, c.queues, c.indexes, c.callers, c.packs, c.blobs, c.subscriptions, c.namespaces, c.deleted, c.backups, c.erased, c.accounts, c.keys, c.schedules} {
			if err := part(); err != nil {
				return err
			}
		}
		return nil
	})
	return report, asFault(err)
}

// unread reports whether the error means that the store could not be read. Then the check has no
// result.
func unread(err error) bool {
	_, failed := errors.AsType[*kv.ReadError](err)
	return failed
}

// asFault converts an error about damage that a check found to a *[Fault].
func asFault(err error) error {
	if d, ok := errors.AsType[*layout.Damage](err); ok {
		return errors.Join(FaultOf(d), err)
	}
	return err
}

// FaultOf returns a fault that describes a damage.
func FaultOf(d *layout.Damage) *Fault {
	row := d.File
	if row == "" {
		row = "value"
	}
	return &Fault{Row: row, Detail: d.Detail}
}

// Checker is one running check of one snapshot.
type Checker struct {
	// Ended returns an error when the check must end, for example the error of a context.
	Ended  func() error
	Txn    *layout.Txn
	graphs Graphs
	report *Report
	// entries counts the journal entries of each namespace.
	entries map[uint32]int64
	// sums are the charges of the runs that have been checked so far.
	sums accountSums
	// effects are the rows of business keys that the entries of those runs imply.
	effects effectRows
	// last is the head that was read most recently. It is kept because queue and index rows of one run
	// are often adjacent.
	last *machine.State
}

// Each calls visit for the rows under a prefix.
func (c *Checker) Each(p []byte, visit func(key, value []byte) error) error {
	it := c.Txn.Scan(kv.Range{Prefix: p})
	defer it.Close()
	for it.Rewind(); layout.Has(it, p); it.Next() {
		if err := c.Ended(); err != nil {
			return err
		}
		value, err := layout.CopyOf(it)
		if err != nil {
			return err
		}
		if err := visit(it.KeyCopy(), value); err != nil {
			return err
		}
	}
	return nil
}

// PerRun lists the kinds of rows whose keys begin with their run, in the order in which a run is
// checked. Entries come first, because they determine which other rows must exist.
var PerRun = []byte{layout.KindEntry, layout.KindSnapshot, layout.KindArtifact, layout.KindMessage, layout.KindRunID}

// runs checks every head and all rows that belong to its run. The heads and the rows of each kind are
// in the same order, so one scan of each kind reads all rows. If a scan skips a row, the row belongs to
// a run without a head.
func (c *Checker) runs() error {
	walks := make([]*rowScan, len(PerRun))
	for i, kind := range PerRun {
		walks[i] = &rowScan{Checker: c, kind: kind, it: c.Txn.Scan(kv.Range{Prefix: []byte{kind}})}
		defer walks[i].it.Close()
		walks[i].it.Rewind()
	}
	err := c.Each([]byte{layout.KindHead}, func(key, value []byte) error {
		ns, run, err := layout.RunOf(key)
		if err != nil {
			return err
		}
		st, err := c.Txn.Head(value)
		if err != nil {
			return &Fault{Namespace: ns, Run: run, Row: "head", Detail: err.Error()}
		}
		if st.RunID != run || st.Namespace != ns {
			return &Fault{Namespace: ns, Run: run, Row: "head", Detail: fmt.Sprintf("holds run %s of namespace %d", st.RunID, st.Namespace)}
		}
		c.report.Runs++
		c.sums.add(st)
		r := &runCheck{Checker: c, scans: walks, Prover: Prover{Ns: ns, Run: run, Keys: c.Txn.Keys}, head: st, value: value, rows: make(map[string]bool), effects: effectRows{}}
		return r.check()
	})
	for _, w := range walks {
		if err == nil {
			err = w.upTo(nil)
		}
	}
	return err
}

// rowScan scans all rows of one kind, run by run.
type rowScan struct {
	*Checker
	kind byte
	it   *kv.Iterator
}

// upTo returns a fault for a row before the given key, because the run of such a row has no head. A nil
// key means after every row. upTo skips the rows of runs that are being removed.
func (w *rowScan) upTo(key []byte) error {
	for layout.Has(w.it, []byte{w.kind}) && (key == nil || bytes.Compare(w.it.Key(), key) < 0) {
		if err := w.headless(); err != nil {
			return err
		}
	}
	return nil
}

// headless handles the rows of one run that has no head. If the run is being removed, it skips them.
// Otherwise it returns a fault.
func (w *rowScan) headless() error {
	ns, run, err := layout.RunOf(w.it.Key())
	if err != nil {
		return err
	}
	going, err := w.going(layout.DeletedKey(ns, run))
	if err != nil {
		return err
	}
	if going {
		return w.leaving(ns, run)
	}
	return &Fault{Namespace: ns, Run: run, Row: layout.Kinds[w.kind].Row, Detail: "the run has no head"}
}

// of calls visit for the rows of one run, which must be the next run in order.
func (w *rowScan) of(ns uint32, run string, visit func(key, value []byte) error) error {
	p := layout.RunKey(nil, w.kind, ns, run)
	if err := w.upTo(p); err != nil {
		return err
	}
	for ; layout.Has(w.it, p); w.it.Next() {
		if err := w.Ended(); err != nil {
			return err
		}
		value, err := layout.CopyOf(w.it)
		if err != nil {
			return err
		}
		if err := visit(w.it.KeyCopy(), value); err != nil {
			return err
		}
	}
	return nil
}

// strays returns a fault if there is a key of an unknown kind.
func (c *Checker) strays() error {
	it := c.Txn.Scan(kv.Range{KeysOnly: true})
	defer it.Close()
	for it.Rewind(); it.Valid(); {
		kind := it.Key()[0]
		if layout.Kinds[kind].Row == "" && kind != layout.KindFormat {
			return &Fault{Row: "key", Detail: fmt.Sprintf("of no known kind: %x", it.Key())}
		}
		it.Seek([]byte{kind + 1})
	}
	return nil
}

// owner returns the head of the run that a row belongs to.
func (c *Checker) owner(row string, ns uint32, run string) (*machine.State, error) {
	if c.last != nil && c.last.RunID == run && c.last.Namespace == ns {
		return c.last, nil
	}
	value, err := layout.Get(c.Txn, layout.HeadKey(ns, run))
	if err != nil {
		return nil, err
	}
	if value == nil {
		return nil, &Fault{Namespace: ns, Run: run, Row: row, Detail: "the run has no head"}
	}
	c.last, err = c.Txn.Head(value)
	return c.last, err
}

// graph returns the graph of a run, or nil if the check does not replay runs.
func (c *Checker) graph(st *machine.State) (*machine.Graph, error) {
	if c.graphs == nil {
		return nil, nil
	}
	g, err := c.graphs(st.Digest, st.Entry, st.Agent, st.EntryOverride)
	if unread(err) {
		return nil, err
	}
	if err != nil {
		return nil, &Fault{Namespace: st.Namespace, Run: st.RunID, Row: "head", Detail: "its pack: " + err.Error()}
	}
	return g, nil
}
