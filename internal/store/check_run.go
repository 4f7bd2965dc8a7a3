package store

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
)

// runCheck follows one run from its first entry to its head.
type runCheck struct {
	*checker
	walks []*rowWalk
	ns    uint32
	run   string
	head  *machine.State
	value []byte
	graph *machine.Graph
	// state is the replayed one, nil before the first entry and without a graph.
	state *machine.State
	seq   uint64
	chain [32]byte
	// rows are the keys that the entries make, of kinds that begin with a run.
	rows map[string]bool
}

func (r *runCheck) fault(row string, seq uint64, format string, args ...any) error {
	return &Fault{Namespace: r.ns, Run: r.run, Seq: seq, Row: row, Detail: fmt.Sprintf(format, args...)}
}

func (r *runCheck) check() error {
	var err error
	if r.graph, err = r.checker.graph(r.head); err != nil {
		return err
	}
	if err := r.walks[0].of(r.ns, r.run, r.entry); err != nil {
		return err
	}
	if err := r.atHead(); err != nil {
		return err
	}
	if err := r.implied(); err != nil {
		return err
	}
	return r.owned()
}

// entry checks one journal entry against what came before.
func (r *runCheck) entry(key, value []byte) error {
	e, err := codec.DecodeEntry(r.run, value)
	if err != nil {
		return r.fault("entry", r.seq+1, "%v", err)
	}
	if e.First != r.seq+1 || !bytes.Equal(key, entryKey(r.ns, r.run, e.First)) {
		return r.fault("entry", r.seq+1, "missing: the next entry begins with record %d", e.First)
	}
	if !codec.Chained(value) {
		return r.fault("entry", e.First, "its hash does not follow from its bytes")
	}
	if e.PrevHash != r.chain {
		return r.fault("entry", e.First, "it does not follow the entry before: chain is %x, entry says %x", r.chain, e.PrevHash)
	}
	r.seq, r.chain = e.First+uint64(len(e.Records))-1, e.Hash
	r.entries[r.ns]++
	r.report.Entries++
	r.report.Records += int64(len(e.Records))
	place, err := get(r.txn, cursorKey(nil, r.ns, e.Cursor))
	if err != nil {
		return err
	}
	if !bytes.Equal(place, codec.EncodePlace(r.run, e.First)) {
		return r.fault("cursor", e.First, "cursor %d does not point at its entry", e.Cursor)
	}
	if r.graph == nil {
		return nil
	}
	return r.replay(&e, value)
}

// replay makes the entry anew from its input and compares all that it stores.
func (r *runCheck) replay(e *machine.Entry, value []byte) error {
	if _, err := machine.ReplayFrom(r.graph, r.state, []machine.Entry{*e}); err != nil {
		if bad, ok := errors.AsType[*machine.ReplayError](err); ok {
			return r.fault("entry", bad.Seq, "%s", bad.Detail)
		}
		return r.fault("entry", e.First, "%v", err)
	}
	result, err := machine.Step(r.graph, r.state, e.Input)
	if err != nil {
		return r.fault("entry", e.First, "%v", err)
	}
	state := *result.State
	state.PrevHash = e.PrevHash
	batch := *result.Batch
	batch.State = &state
	w, err := r.store.Encode(&batch)
	if err != nil {
		return r.fault("entry", e.First, "%v", err)
	}
	for i := range w.ops {
		if err := r.stored(e, &w.ops[i], value); err != nil {
			return err
		}
	}
	state.PrevHash = e.Hash
	r.state = &state
	return nil
}

// stored compares one row that an entry made. Heads, timers, outbox, ready and
// index rows change later: they are checked against the head.
func (r *runCheck) stored(e *machine.Entry, op *Op, entry []byte) error {
	kind := op.Key[0]
	switch kind {
	case kindEntry:
		codec.SetCursor(op.Value, e.Cursor)
		if !bytes.Equal(op.Value, entry) {
			return r.fault("entry", e.First, "its bytes differ from what its input makes")
		}
		return nil
	case kindSnapshot, kindArtifact, kindMessage, kindRunID:
		r.rows[string(op.Key)] = true
	case kindCallerID, kindBlobRef:
	default:
		return nil
	}
	value, err := get(r.txn, op.Key)
	if err != nil {
		return err
	}
	if value == nil {
		return r.fault(rowNames[kind], e.First, "missing")
	}
	if !bytes.Equal(value, op.Value) {
		return r.fault(rowNames[kind], e.First, "is %x, its record makes %x", value, op.Value)
	}
	return nil
}

// atHead compares the end of the journal with the head.
func (r *runCheck) atHead() error {
	if r.seq != r.head.Seq {
		return r.fault("head", r.head.Seq, "the journal ends at record %d", r.seq)
	}
	if r.chain != r.head.PrevHash {
		return r.fault("head", r.seq, "its chain %x is not the last entry's %x", r.head.PrevHash, r.chain)
	}
	if r.graph != nil && !bytes.Equal(codec.EncodeHead(r.state, r.chain), r.value) {
		return r.fault("head", r.seq, "it differs from the replay of its records")
	}
	return nil
}

// implied checks that the rows which the head implies are there.
func (r *runCheck) implied() error {
	for _, t := range machine.Timers(r.head) {
		if err := r.want("timer", timerKey(nil, r.ns, &t), codec.EncodeNumber(t.Turn)); err != nil {
			return err
		}
	}
	for _, c := range machine.Indexes(r.head) {
		if err := r.want("index", indexKey(nil, r.ns, r.run, &c), codec.Mark); err != nil {
			return err
		}
	}
	if r.graph == nil {
		return nil
	}
	for _, o := range machine.Outbox(r.graph, r.head) {
		if err := r.want("outbox", outboxKey(nil, r.ns, &o), nil); err != nil {
			return err
		}
	}
	if machine.Ready(r.graph, r.head) {
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
			if r.graph != nil && !r.rows[string(key)] {
				return r.fault(rowNames[w.kind], 0, "no record made the row %x", key)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
