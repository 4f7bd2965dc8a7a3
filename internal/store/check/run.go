package check

import (
	"bytes"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// runCheck checks one run, from its first journal entry to its head (stored current state).
type runCheck struct {
	*Checker
	Prover
	// scans has one scan for each kind of PerRun, in the same order. So the first one has the entries.
	scans []*rowScan
	head  *machine.State
	value []byte
	// rows are the keys of the rows that the entries of the run make. It contains only the kinds whose
	// keys begin with a run.
	rows map[string]bool
	// effects are the business keys that the run holds according to its entries.
	effects effectRows
}

// check checks the journal of one run, its head (stored current state), and all rows that follow from them.
func (r *runCheck) check() error {
	var err error
	if r.Prover.Graph, err = r.Checker.graph(r.head); err != nil {
		return err
	}
	if r.head.Erased != nil {
		// The inputs of an erased run cannot be replayed. Only its seqs, its hash chain, its timers and its index
		// rows are checked.
		r.Prover.Graph = nil
	}
	if err := r.scans[0].visitRun(r.Ns, r.Run, r.entry); err != nil {
		return err
	}
	if r.seq < r.head.Seq {
		return r.fault("head", r.head.Seq, "the journal ends at record %d", r.seq)
	}
	if r.head.Imported {
		if err := r.imported(); err != nil {
			return err
		}
	} else if err := r.claims(r.Ns, r.Run, r.effects); err != nil {
		return err
	}
	if !r.head.Imported { // an imported run is rolled up only in the store in which it ran
		st := r.Prover.Progress
		if st == nil && r.seq == r.head.Seq {
			st = r.head
		}
		r.usage.add(r.Ns, st)
	}
	if err := r.checkHeadRows(); err != nil {
		return err
	}
	return r.checkNoExtraRows()
}

// entry checks one journal entry against the previous entries, and the stored rows that it made.
func (r *runCheck) entry(key, value []byte) error {
	if !bytes.Equal(key, layout.EntryKey(r.Ns, r.Run, r.seq+1)) {
		if e, err := codec.LeftOfEntry(r.Run, value); err == nil {
			return r.fault("entry", r.seq+1, "missing: the next entry begins with record %d", e.First)
		}
	}
	e, w, err := r.Next(value)
	if err != nil {
		return err
	}
	r.report.Entries++
	r.report.Records += int64(len(e.Records))
	if !r.head.Imported {
		r.Checker.entries[r.Ns]++
	}
	if err := r.compareHead(e, w); err != nil || w == nil {
		return err
	}
	r.effects.fold(w.Ops)
	for i := range w.Ops {
		if err := r.checkEntryRow(e, &w.Ops[i]); err != nil {
			return err
		}
	}
	return nil
}

// compareHead compares the replayed state with the stored head (current state) when the replay reaches the
// record of the head. After that, it returns a fault for an entry that should have stored a newer head.
func (r *runCheck) compareHead(e *machine.Entry, w *layout.EntryRows) error {
	switch {
	case r.seq == r.head.Seq:
		return r.atHead(r.head, r.value)
	case r.seq < r.head.Seq:
		return nil
	case e.First <= r.head.Seq:
		return r.fault("head", r.head.Seq, "it stands in the middle of an entry")
	}
	due := r.head.Seq/layout.HeadEvery != r.seq/layout.HeadEvery
	if w != nil {
		// If an entry stores a head, the head is the second op, see layout.Encode.
		due = bytes.Equal(w.Ops[min(1, len(w.Ops)-1)].Key, w.Run)
	}
	if due {
		return r.fault("head", r.head.Seq, "it is older than the one that record %d made", e.First)
	}
	return nil
}

// imported checks the end of an imported run. The head must be its last state, and all artifact
// versions must have rows.
func (r *runCheck) imported() error {
	if r.seq != r.head.Seq {
		return r.fault("head", r.head.Seq, "the imported journal ends at record %d", r.seq)
	}
	if r.Prover.Graph == nil {
		return nil
	}
	for _, op := range layout.ListedRows(r.Ns, r.Run, r.Progress.Unlisted) {
		if err := r.checkEntryRow(&machine.Entry{First: r.seq}, &op); err != nil {
			return err
		}
	}
	return nil
}

// checkEntryRow checks one row that an entry made. Rows that later entries change are compared with the run's
// current state elsewhere: heads, timers, outbox, ready and index rows. The ids of an imported run are
// not checked, because an import stores none.
func (r *runCheck) checkEntryRow(e *machine.Entry, op *layout.Op) error {
	kind := op.Key[0]
	switch kind {
	case layout.KindSnapshot, layout.KindArtifact, layout.KindMessage:
		r.rows[string(op.Key)] = true
	case layout.KindBlobRef:
		// The key of a reference to a blob does not begin with the run. Therefore r.rows does not contain it.
	case layout.KindRunID, layout.KindCallerID:
		if r.head.Imported {
			return nil
		}
		if kind == layout.KindRunID {
			r.rows[string(op.Key)] = true
		}
	default:
		return nil
	}
	value, err := layout.Get(r.Txn, op.Key)
	if err != nil {
		return err
	}
	if value == nil {
		return r.fault(layout.Kinds[kind].Row, e.First, "missing")
	}
	if !bytes.Equal(value, op.Value) {
		return r.fault(layout.Kinds[kind].Row, e.First, "is %x, its record makes %x", value, op.Value)
	}
	return nil
}

// checkHeadRows checks that all rows exist that follow from the head (stored current state) of the run. Without
// a graph, it does not look for outbox and ready rows.
func (r *runCheck) checkHeadRows() error {
	for _, t := range rules.Timers(r.head) {
		if err := r.requireValue("timer", layout.TimerKey(nil, r.Ns, &t), codec.EncodeNumber(t.Turn)); err != nil {
			return err
		}
	}
	for _, c := range rules.Indexes(r.head) {
		if err := r.requireValue("index", layout.IndexKey(nil, r.Ns, r.Run, &c), codec.Mark); err != nil {
			return err
		}
	}
	if r.Prover.Graph == nil {
		return nil
	}
	for _, o := range rules.Outbox(r.Prover.Graph, r.head) {
		if err := r.requireValue("outbox", layout.OutboxKey(nil, r.Ns, &o), nil); err != nil {
			return err
		}
	}
	if rules.Ready(r.Prover.Graph, r.head) {
		return r.requireValue("ready", layout.RunKey(nil, layout.KindReady, r.Ns, r.Run), codec.Mark)
	}
	return nil
}

// requireValue checks that a row exists and has the given value. If value is nil, any value is correct.
func (r *runCheck) requireValue(row string, key, value []byte) error {
	got, err := layout.Get(r.Txn, key)
	if err != nil {
		return err
	}
	if got == nil {
		return r.fault(row, r.seq, "missing: the head implies %x", key)
	}
	if value != nil && !bytes.Equal(got, value) {
		return r.fault(row, r.seq, "is %x, want %x", got, value)
	}
	return nil
}

// checkNoExtraRows counts the rows of the run, and returns a fault if the run has a row that no record made.
// Without a graph, it only counts.
func (r *runCheck) checkNoExtraRows() error {
	counts := map[byte]*int64{
		layout.KindSnapshot: &r.report.Checkpoints, layout.KindArtifact: &r.report.Artifacts,
		layout.KindMessage: &r.report.Messages, layout.KindRunID: &r.report.IDs,
	}
	for _, w := range r.scans[1:] {
		err := w.visitRun(r.Ns, r.Run, func(key, _ []byte) error {
			*counts[w.kind]++
			if r.Prover.Graph != nil && !r.rows[string(key)] {
				return r.fault(layout.Kinds[w.kind].Row, 0, "no record made the row %x", key)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
