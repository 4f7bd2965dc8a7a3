package check

import (
	"bytes"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// runCheck checks one run, from its first entry to its head.
type runCheck struct {
	*Checker
	Prover
	scans []*rowScan
	head  *machine.State
	value []byte
	// rows are the keys of the rows that the entries make. It includes only kinds whose keys begin with
	// a run.
	rows map[string]bool
	// effects are the business keys that the run holds according to its entries.
	effects effectRows
}

func (r *runCheck) check() error {
	var err error
	if r.Prover.Graph, err = r.Checker.graph(r.head); err != nil {
		return err
	}
	if r.head.Erased != nil {
		// The inputs of an erased run cannot be replayed. Only the chain and the index rows are
		// checked.
		r.Prover.Graph = nil
	}
	if err := r.scans[0].of(r.Ns, r.Run, r.entry); err != nil {
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
	if err := r.implied(); err != nil {
		return err
	}
	return r.owned()
}

// entry checks one journal entry against the previous entries, and checks all rows that it made.
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
	if err := r.passed(e, w); err != nil || w == nil {
		return err
	}
	r.effects.fold(w.Ops)
	for i := range w.Ops {
		if err := r.stored(e, &w.Ops[i]); err != nil {
			return err
		}
	}
	return nil
}

// passed compares the state with the stored head when the state reaches the record of the head. After
// that, it searches for an entry that should have stored a newer head.
func (r *runCheck) passed(e *machine.Entry, w *layout.Made) error {
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
		due = bytes.Equal(w.Ops[min(1, len(w.Ops)-1)].Key, w.Run)
	}
	if due {
		return r.fault("head", r.head.Seq, "it is older than the one that record %d made", e.First)
	}
	return nil
}

// imported checks the end of an imported run. The head must be its last state, and the rows must
// contain all artifact versions.
func (r *runCheck) imported() error {
	if r.seq != r.head.Seq {
		return r.fault("head", r.head.Seq, "the imported journal ends at record %d", r.seq)
	}
	if r.Prover.Graph == nil {
		return nil
	}
	for _, op := range layout.ListedRows(r.Ns, r.Run, r.Progress.Unlisted) {
		if err := r.stored(&machine.Entry{First: r.seq}, &op); err != nil {
			return err
		}
	}
	return nil
}

// stored checks one row that an entry made. It does not check heads, timers, outbox, ready and index
// rows, because later entries change them. These are compared with the head. It does not check the ids
// of an imported run, because an import stores none.
func (r *runCheck) stored(e *machine.Entry, op *layout.Op) error {
	kind := op.Key[0]
	switch kind {
	case layout.KindSnapshot, layout.KindArtifact, layout.KindMessage:
		r.rows[string(op.Key)] = true
	case layout.KindBlobRef:
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

// implied checks that all rows exist that follow from the head.
func (r *runCheck) implied() error {
	for _, t := range rules.Timers(r.head) {
		if err := r.want("timer", layout.TimerKey(nil, r.Ns, &t), codec.EncodeNumber(t.Turn)); err != nil {
			return err
		}
	}
	for _, c := range rules.Indexes(r.head) {
		if err := r.want("index", layout.IndexKey(nil, r.Ns, r.Run, &c), codec.Mark); err != nil {
			return err
		}
	}
	if r.Prover.Graph == nil {
		return nil
	}
	for _, o := range rules.Outbox(r.Prover.Graph, r.head) {
		if err := r.want("outbox", layout.OutboxKey(nil, r.Ns, &o), nil); err != nil {
			return err
		}
	}
	if rules.Ready(r.Prover.Graph, r.head) {
		return r.want("ready", layout.RunKey(nil, layout.KindReady, r.Ns, r.Run), codec.Mark)
	}
	return nil
}

// want checks that a row exists and has the given value. If value is nil, any value is correct.
func (r *runCheck) want(row string, key, value []byte) error {
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

// owned returns a fault if the run has a row that no record made.
func (r *runCheck) owned() error {
	counts := map[byte]*int64{
		layout.KindSnapshot: &r.report.Checkpoints, layout.KindArtifact: &r.report.Artifacts,
		layout.KindMessage: &r.report.Messages, layout.KindRunID: &r.report.IDs,
	}
	for _, w := range r.scans[1:] {
		err := w.of(r.Ns, r.Run, func(key, _ []byte) error {
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
