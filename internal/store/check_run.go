package store

import (
	"bytes"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/store/codec"
)

// runCheck follows one run from its first entry to its head.
type runCheck struct {
	*checker
	prover
	walks []*rowWalk
	head  *machine.State
	value []byte
	// rows are the keys that the entries make, of kinds that begin with a run.
	rows map[string]bool
}

func (r *runCheck) check() error {
	var err error
	if r.prover.graph, err = r.checker.graph(r.head); err != nil {
		return err
	}
	if err := r.walks[0].of(r.ns, r.run, r.entry); err != nil {
		return err
	}
	if err := r.atHead(r.head, r.value); err != nil {
		return err
	}
	if err := r.implied(); err != nil {
		return err
	}
	return r.owned()
}

// entry checks one journal entry against what came before, and all that it made.
func (r *runCheck) entry(key, value []byte) error {
	if !bytes.Equal(key, entryKey(r.ns, r.run, r.seq+1)) {
		if e, err := codec.DecodeEntry(r.run, value); err == nil {
			return r.fault("entry", r.seq+1, "missing: the next entry begins with record %d", e.First)
		}
	}
	e, w, err := r.next(value)
	if err != nil {
		return err
	}
	r.report.Entries++
	r.report.Records += int64(len(e.Records))
	if err := r.placed(e); err != nil || w == nil {
		return err
	}
	for i := range w.ops {
		if err := r.stored(e, &w.ops[i]); err != nil {
			return err
		}
	}
	return nil
}

// placed checks that the entry's cursor points at it; imported runs have none.
func (r *runCheck) placed(e *machine.Entry) error {
	if r.head.Imported {
		return nil
	}
	r.checker.entries[r.ns]++
	place, err := get(r.txn, cursorKey(nil, r.ns, e.Cursor))
	if err != nil {
		return err
	}
	if !bytes.Equal(place, codec.EncodePlace(r.run, e.First)) {
		return r.fault("cursor", e.First, "cursor %d does not point at its entry", e.Cursor)
	}
	return nil
}

// stored compares one row that an entry made. Heads, timers, outbox, ready and
// index rows change later: they are checked against the head.
// An imported run uses up no ids.
func (r *runCheck) stored(e *machine.Entry, op *Op) error {
	kind := op.Key[0]
	switch kind {
	case kindSnapshot, kindArtifact, kindMessage:
		r.rows[string(op.Key)] = true
	case kindBlobRef:
	case kindRunID, kindCallerID:
		if r.head.Imported {
			return nil
		}
		if kind == kindRunID {
			r.rows[string(op.Key)] = true
		}
	default:
		return nil
	}
	value, err := get(r.txn, op.Key)
	if err != nil {
		return err
	}
	if value == nil {
		return r.fault(kinds[kind].row, e.First, "missing")
	}
	if !bytes.Equal(value, op.Value) {
		return r.fault(kinds[kind].row, e.First, "is %x, its record makes %x", value, op.Value)
	}
	return nil
}

// implied checks that the rows which the head implies are there.
func (r *runCheck) implied() error {
	for _, t := range rules.Timers(r.head) {
		if err := r.want("timer", timerKey(nil, r.ns, &t), codec.EncodeNumber(t.Turn)); err != nil {
			return err
		}
	}
	for _, c := range rules.Indexes(r.head) {
		if err := r.want("index", indexKey(nil, r.ns, r.run, &c), codec.Mark); err != nil {
			return err
		}
	}
	if r.prover.graph == nil {
		return nil
	}
	for _, o := range rules.Outbox(r.prover.graph, r.head) {
		if err := r.want("outbox", outboxKey(nil, r.ns, &o), nil); err != nil {
			return err
		}
	}
	if rules.Ready(r.prover.graph, r.head) {
		return r.want("ready", runKey(nil, kindReady, r.ns, r.run), codec.Mark)
	}
	return nil
}

// want asks for a row, with any value if that is nil.
func (r *runCheck) want(row string, key, value []byte) error {
	got, err := get(r.txn, key)
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

// owned looks for rows of the run that no record made.
func (r *runCheck) owned() error {
	counts := map[byte]*int64{
		kindSnapshot: &r.report.Checkpoints, kindArtifact: &r.report.Artifacts,
		kindMessage: &r.report.Messages, kindRunID: &r.report.IDs,
	}
	for _, w := range r.walks[1:] {
		err := w.of(r.ns, r.run, func(key, _ []byte) error {
			*counts[w.kind]++
			if r.prover.graph != nil && !r.rows[string(key)] {
				return r.fault(kinds[w.kind].row, 0, "no record made the row %x", key)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
