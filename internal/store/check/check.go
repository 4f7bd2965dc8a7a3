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

// Graphs returns the workflow graph with which a run was started.
type Graphs func(digest, entry, agent string, override bool) (*machine.Graph, error)

// Report counts the rows that a check has read. After a fault the counts include the row with the fault.
type Report struct {
	Runs, Entries, Records, Checkpoints int64
	Artifacts, Messages, IDs            int64
	Timers, Outbox, Ready, Indexes      int64
	Packs                               int64
	// Deleted counts the deleted runs whose id is still reserved in the store.
	Deleted int64
	// Erased counts the runs whose values were erased.
	Erased int64
	// Accounts counts the accounts that runs are charged to.
	Accounts int64
	// Keys counts the business keys that steps hold.
	Keys int64
	// Usage counts the rollups of usage.
	Usage int64
}

// Fault is an error in a store. A check returns only the first one.
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

// Check verifies every invariant of the store at the last synced commit. It returns the first *[Fault].
// The invariants are the following. Each run has a valid hash chain and seqs without gaps. The inputs
// of the run, replayed through the state machine, make exactly the stored records, rows, checkpoints
// and head (the stored current state). Timers, outbox, ready and list indexes agree with the heads.
// Cursors have no gaps and refer to entries. Every row belongs to something. Check only reads, and may
// run while the store is in use. It ends early when ctx ends.
//
// If graphs is nil, no run is replayed, but chains, seqs, heads, cursors and the owners of rows are
// checked.
func Check(ctx context.Context, view View, graphs Graphs) (Report, error) {
	return Watched(view, graphs, func(*Report) error { return ctx.Err() })
}

// Watched checks a store like [Check], and calls step for each row with the current counts. If step
// returns an error, the check ends with it.
func Watched(view View, graphs Graphs, step func(soFar *Report) error) (Report, error) {
	var report Report
	err := view(func(txn *layout.Txn) error {
		c := &Checker{Ended: func() error { return step(&report) }, Txn: txn, graphs: graphs, report: &report, entries: make(map[uint32]int64), sums: accountSums{}, usage: usageSums{}, effects: effectRows{}}
		for _, part := range []func() error{c.runs, c.strays, c.cursors, c.queues, c.indexes, c.callers, c.packs, c.blobs, c.subscriptions, c.namespaces, c.checkDeleted, c.backups, c.checkErased, c.accounts, c.checkUsage, c.keys, c.schedules} {
			if err := part(); err != nil {
				return err
			}
		}
		return nil
	})
	return report, asFault(err)
}

// isReadFailure reports whether err means that the store could not be read, so that the check has no result.
func isReadFailure(err error) bool {
	_, failed := errors.AsType[*kv.ReadError](err)
	return failed
}

// asFault converts an error about damaged data to a *[Fault] and adds it to the error.
func asFault(err error) error {
	if d, ok := errors.AsType[*layout.Damage](err); ok {
		return errors.Join(FaultOf(d), err)
	}
	return err
}

// FaultOf returns a fault that describes damaged data.
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
	// entries counts the journal entries of each namespace that have a cursor.
	entries map[uint32]int64
	// sums are the charges of the runs that have been checked so far.
	sums accountSums
	// usage is what the runs of each namespace that have been checked so far have consumed. hadMore are the namespaces
	// with entries of deleted runs.
	usage   usageSums
	hadMore map[uint32]bool
	// effects are the rows of business keys that the entries of the checked runs imply.
	effects effectRows
	// last is the head (stored current state) that was read most recently. It is kept because queue and
	// index rows of one run are often adjacent.
	last *machine.State
}

// Each calls visit for the rows whose keys begin with p.
func (c *Checker) Each(p []byte, visit func(key, value []byte) error) error {
	it := c.Txn.Scan(kv.Range{Prefix: p})
	defer it.Close()
	for it.Rewind(); layout.AtPrefix(it, p); it.Next() {
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

// PerRun lists the kinds of rows whose keys begin with the id of their run, in the order in which a run
// is checked. Entries come first, because they determine which other rows must exist.
var PerRun = []byte{layout.KindEntry, layout.KindSnapshot, layout.KindArtifact, layout.KindMessage, layout.KindRunID}

// runs checks the head (stored current state) of every run and all rows of the run. The heads and the rows of
// each kind are sorted by run, so one scan of each kind reads all rows. A row that lies between two heads
// belongs to a run without a head. This is a fault, unless the run is being removed.
func (c *Checker) runs() error {
	walks := make([]*rowScan, len(PerRun))
	for i, kind := range PerRun {
		walks[i] = &rowScan{Checker: c, kind: kind, iterator: c.Txn.Scan(kv.Range{Prefix: []byte{kind}})}
		defer walks[i].iterator.Close()
		walks[i].iterator.Rewind()
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
	kind     byte
	iterator *kv.Iterator
}

// upTo skips the rows before key, which is the key of the next run that exists. If a row there belongs
// to a run that does not exist and is not being removed, upTo returns a fault. A nil key means the end
// of the kind's rows.
func (w *rowScan) upTo(key []byte) error {
	for layout.AtPrefix(w.iterator, []byte{w.kind}) && (key == nil || bytes.Compare(w.iterator.Key(), key) < 0) {
		if err := w.handleHeadless(); err != nil {
			return err
		}
	}
	return nil
}

// handleHeadless handles the rows of one run that has no head (stored current state). If the run is being
// removed, it skips them. Otherwise it returns a fault.
func (w *rowScan) handleHeadless() error {
	ns, run, err := layout.RunOf(w.iterator.Key())
	if err != nil {
		return err
	}
	going, err := w.isBeingRemoved(layout.DeletedKey(ns, run))
	if err != nil {
		return err
	}
	if going {
		return w.skipRemovedRun(ns, run)
	}
	return &Fault{Namespace: ns, Run: run, Row: layout.Kinds[w.kind].Row, Detail: "the run has no head"}
}

// visitRun calls visit for the rows of one run. It must be called for the runs in their order.
func (w *rowScan) visitRun(ns uint32, run string, visit func(key, value []byte) error) error {
	p := layout.RunKey(nil, w.kind, ns, run)
	if err := w.upTo(p); err != nil {
		return err
	}
	for ; layout.AtPrefix(w.iterator, p); w.iterator.Next() {
		if err := w.Ended(); err != nil {
			return err
		}
		value, err := layout.CopyOf(w.iterator)
		if err != nil {
			return err
		}
		if err := visit(w.iterator.KeyCopy(), value); err != nil {
			return err
		}
	}
	return nil
}

// strays returns a fault if the store has a key of an unknown kind.
func (c *Checker) strays() error {
	it := c.Txn.Scan(kv.Range{KeysOnly: true})
	defer it.Close()
	for it.Rewind(); it.Valid(); {
		kind := it.Key()[0]
		if layout.Kinds[kind].Row == "" && kind != layout.KindFormat {
			return &Fault{Row: "key", Detail: fmt.Sprintf("of no known kind: %x", it.Key())}
		}
		// One key of each kind is enough.
		it.Seek([]byte{kind + 1})
	}
	return nil
}

// owner returns the stored current state of the run that a row belongs to.
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

// graph returns the workflow graph of a run, or nil if the check does not replay runs.
func (c *Checker) graph(st *machine.State) (*machine.Graph, error) {
	if c.graphs == nil {
		return nil, nil
	}
	g, err := c.graphs(st.Digest, st.Entry, st.Agent, st.EntryOverride)
	if isReadFailure(err) {
		return nil, err
	}
	if err != nil {
		return nil, &Fault{Namespace: st.Namespace, Run: st.RunID, Row: "head", Detail: "its pack: " + err.Error()}
	}
	return g, nil
}
