package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/seal"
)

// These constants limit one read of a proof, in records and in bytes, so that its transaction is open
// only for a short time.
const (
	provenRecords = 256
	provenBytes   = 1 << 20
)

// View calls read with a transaction that shows the last synced commit.
type View func(read func(txn *layout.Txn) error) error

// Prover checks the stored journal entries of one run, beginning with the first. The seqs must have no
// gap, the hash chain must be valid, and each replayed input must make exactly the stored bytes.
type Prover struct {
	Ns  uint32
	Run string
	// Graph is the run's graph. If it is nil, the inputs are not replayed.
	Graph *machine.Graph
	// Keys are the encryption keys of erasable runs. If Keys is nil, entries must not be encrypted.
	Keys layout.Keyring
	// Progress is the replayed state of the run. It is nil before the first entry, and always if Graph
	// is nil.
	Progress *machine.State
	seq      uint64
	Chain    [32]byte
	entries  int64
	// erased means that the values of the run were erased, so that the run cannot be replayed.
	erased bool
}

func (p *Prover) fault(row string, seq uint64, format string, args ...any) error {
	return &Fault{Namespace: p.Ns, Run: p.Run, Seq: seq, Row: row, Detail: fmt.Sprintf(format, args...)}
}

// Next checks one journal entry. The second result contains the rows that the replay of the entry
// makes. It is nil if there is no graph.
func (p *Prover) Next(value []byte) (*machine.Entry, *layout.EntryRows, error) {
	e, err := codec.ReadEntry(p.Run, value, p.Keys)
	if err != nil {
		return nil, nil, p.fault("entry", p.seq+1, "%v", err)
	}
	if e.First != p.seq+1 {
		return nil, nil, p.fault("entry", p.seq+1, "missing: the next entry begins with record %d", e.First)
	}
	if !codec.Chained(value) {
		return nil, nil, p.fault("entry", e.First, "its hash does not follow from its bytes")
	}
	if e.PrevHash != p.Chain {
		return nil, nil, p.fault("entry", e.First, "it does not follow the entry before: chain is %x, entry says %x", p.Chain, e.PrevHash)
	}
	var w *layout.EntryRows
	if p.Graph != nil {
		if w, err = p.replay(&e, value); err != nil {
			return nil, nil, err
		}
	}
	p.seq, p.Chain = e.First+uint64(len(e.Records))-1, e.Hash
	p.entries++
	return &e, w, nil
}

// replay computes the entry again from its input and compares the resulting bytes with the stored ones.
func (p *Prover) replay(e *machine.Entry, value []byte) (*layout.EntryRows, error) {
	result, err := rules.Repeat(p.Graph, p.Progress, e)
	if bad, ok := errors.AsType[*rules.ReplayError](err); ok {
		return nil, p.fault("entry", bad.Seq, "%s", bad.Detail)
	}
	if err != nil {
		return nil, p.fault("entry", e.First, "%v", err)
	}
	state := *result.State
	// An imported run may be in another namespace than the one that its entries contain. The namespace
	// of the import is used.
	state.PrevHash, state.Namespace = e.PrevHash, p.Ns
	batch := *result.Batch
	batch.State = &state
	key, err := p.key(value, state.Erasable)
	if err != nil {
		return nil, err
	}
	w, err := layout.Encode(&batch, key)
	if err != nil {
		return nil, p.fault("entry", e.First, "%v", err)
	}
	codec.SetCursor(w.Ops[w.Entry].Value, e.Cursor)
	if !bytes.Equal(w.Ops[w.Entry].Value, value) {
		return nil, p.fault("entry", e.First, "its bytes differ from what its input makes")
	}
	state.PrevHash, state.Unlisted = e.Hash, w.Unlisted
	p.Progress = &state
	return w, nil
}

// key returns the key with which an entry is encrypted, or nil if it is not encrypted. Entries of an
// erasable run must be encrypted, and entries of other runs must not. Otherwise key returns a fault.
func (p *Prover) key(value []byte, erasable bool) (*seal.Key, error) {
	slot, ok := codec.KeySlot(value)
	if ok != erasable {
		return nil, p.fault("entry", p.seq+1, "it is sealed: %v, its run can be erased: %v", ok, erasable)
	}
	if !ok {
		return nil, nil
	}
	key, err := p.Keys.Key(slot)
	if err != nil {
		return nil, p.fault("entry", p.seq+1, "its key: %v", err)
	}
	return key, nil
}

// proof returns the result of the checks so far. If err is a fault or damaged data, it becomes part of
// the result. Any other error is returned.
func (p *Prover) proof(err error) (machine.Proof, error) {
	out := machine.Proof{Entries: p.entries, Records: int64(p.seq), Hash: p.Chain, Erased: p.erased}
	if d, ok := errors.AsType[*layout.Damage](err); ok {
		out.BadSeq, out.Detail = p.seq+1, "damaged: "+d.Detail
		return out, nil
	}
	if fault, ok := errors.AsType[*Fault](err); ok {
		out.BadSeq, out.Detail = max(fault.Seq, 1), fault.Row+": "+fault.Detail
		return out, nil
	}
	return out, err
}

// Prove checks the journal of one run up to its current last entry. It also checks that the stored head
// (current state) is the result of the records before it. If the run does not exist, the error is
// machine.ErrNoRun. Faults are in the returned proof. Prove only reads, and may run while the store is
// in use.
func Prove(ctx context.Context, view View, ns uint32, run string, g *machine.Graph) (machine.Proof, error) {
	p := &Prover{Ns: ns, Run: run, Graph: g}
	head, value, err := toProve(view, ns, run)
	if errors.Is(err, codec.ErrCorrupt) {
		return p.proof(p.fault("head", 1, "%v", err))
	}
	if err != nil {
		return machine.Proof{}, fmt.Errorf("prove run %q: %w", run, err)
	}
	if p.erased = head.Erased != nil; p.erased {
		p.Graph = nil
	}
	for err == nil && p.seq < head.Seq {
		_, err = provePage(ctx, view, p, head.Seq, head.Seq)
	}
	if err == nil {
		err = p.atHead(head, value)
	}
	for more := true; err == nil && more; {
		more, err = provePage(ctx, view, p, head.Seq, math.MaxUint64)
	}
	if err == nil {
		err = proveEnd(ctx, view, p)
	}
	if err != nil {
		if gone := deletedSince(view, ns, run); gone != nil {
			return machine.Proof{}, fmt.Errorf("prove run %q: %w", run, gone)
		}
	}
	return p.proof(err)
}

// proveEnd returns a fault if a used request id refers to a record after the last entry of the run,
// because then this entry is missing. A missing last entry without a request id is found only by a full
// check, which compares the cursors.
func proveEnd(ctx context.Context, view View, p *Prover) error {
	return layout.EachRow(ctx, view, layout.RunKey(nil, layout.KindRunID, p.Ns, p.Run), func(_, value []byte) error {
		d, err := codec.LeftOfDedupe(machine.Dedupe{}, value)
		if err != nil {
			return p.fault("id", p.seq, "%v", err)
		}
		if d.Last <= p.seq {
			return nil
		}
		// The run may have got more entries after its last entry was read.
		if later, err := isThere(view, layout.EntryKey(p.Ns, p.Run, p.seq+1)); later || err != nil {
			return err
		}
		return p.fault("entry", p.seq+1, "missing: an id was used up by record %d", d.Last)
	})
}

// toProve returns the head (stored current state) of a run, both decoded and as bytes.
func toProve(view View, ns uint32, run string) (head *machine.State, value []byte, err error) {
	err = view(func(txn *layout.Txn) error {
		if value, err = layout.Get(txn, layout.HeadKey(ns, run)); err != nil {
			return err
		}
		if value == nil {
			return layout.MissingRunError(txn, ns, run, machine.ErrNoRun)
		}
		head, err = txn.Head(value)
		return err
	})
	return head, value, err
}

// deletedSince returns an error if the run was deleted during the proof, because the missing rows are
// then no fault.
func deletedSince(view View, ns uint32, run string) error {
	return view(func(txn *layout.Txn) error {
		if there, err := layout.RunExists(txn, ns, run); err != nil || there {
			return err
		}
		return layout.MissingRunError(txn, ns, run, nil)
	})
}

func isThere(view View, key []byte) (found bool, err error) {
	err = view(func(txn *layout.Txn) error {
		value, err := layout.Get(txn, key)
		found = value != nil
		return err
	})
	return found, err
}

// provePage checks the next entries of the run, up to the record last, in one bounded read. A missing
// entry at or before the record head, the record of the stored state, is a fault. more reports whether
// further entries may follow.
func provePage(ctx context.Context, view View, p *Prover, head, last uint64) (more bool, err error) {
	err = view(func(txn *layout.Txn) error {
		read := 0
		for n := 0; n < provenRecords && read < provenBytes && p.seq < last; n++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			value, err := layout.Get(txn, layout.EntryKey(p.Ns, p.Run, p.seq+1))
			if err != nil {
				return err
			}
			if value == nil && (p.seq < head || layout.AnyFrom(txn, layout.RunKey(nil, layout.KindEntry, p.Ns, p.Run), p.seq+1)) {
				return p.fault("entry", p.seq+1, "missing")
			}
			if value == nil {
				return nil
			}
			p.Keys = txn.Keys
			if _, _, err := p.Next(value); err != nil {
				return err
			}
			read += len(value)
		}
		more = p.seq < last
		return nil
	})
	return more, err
}

// atHead compares the state after the proven entries with the head (stored current state).
func (p *Prover) atHead(head *machine.State, value []byte) error {
	if p.seq != head.Seq {
		return p.fault("head", head.Seq, "the journal ends at record %d", p.seq)
	}
	if p.Chain != head.PrevHash {
		return p.fault("head", p.seq, "its chain %x is not the last entry's %x", head.PrevHash, p.Chain)
	}
	if p.Graph == nil {
		return nil
	}
	state := *p.Progress
	state.Imported = head.Imported
	key, err := p.key(value, state.Erasable)
	if err != nil {
		return err
	}
	if !bytes.Equal(layout.EncodeHead(&state, p.Chain, key), value) {
		return p.fault("head", p.seq, "it differs from the replay of its records")
	}
	return nil
}

// ProveAll checks the journals of all runs, or only of the runs with the id run if it is not "". It calls
// report for each run, in the order of namespaces and ids. If no run has the id, the error is machine.ErrNoRun.
func ProveAll(ctx context.Context, view View, run string, graphs Graphs, report func(ns uint32, run string, proof machine.Proof) error) error {
	var heads []*machine.State
	err := view(func(txn *layout.Txn) error {
		it := txn.Scan(kv.Range{Prefix: []byte{layout.KindHead}})
		defer it.Close()
		for it.Rewind(); layout.AtPrefix(it, []byte{layout.KindHead}); it.Next() {
			ns, id, err := layout.RunOf(it.Key())
			if err != nil {
				return err
			}
			if run == "" || run == id {
				heads = append(heads, &machine.State{Namespace: ns, RunID: id})
			}
		}
		return ctx.Err()
	})
	for i := 0; err == nil && i < len(heads); i++ {
		var proof machine.Proof
		if proof, err = proveStored(ctx, view, heads[i].Namespace, heads[i].RunID, graphs); err == nil {
			err = report(heads[i].Namespace, heads[i].RunID, proof)
		}
	}
	if err == nil && len(heads) == 0 && run != "" {
		err = machine.ErrNoRun
	}
	return err
}

// proveStored checks the journal of one run. If the stored current state of the run or its pack is damaged or
// missing, the proof says so, and the journal is not checked.
func proveStored(ctx context.Context, view View, ns uint32, run string, graphs Graphs) (machine.Proof, error) {
	head, _, err := toProve(view, ns, run)
	if isReadFailure(err) {
		return machine.Proof{}, err
	}
	if err != nil {
		return machine.Proof{BadSeq: 1, Detail: "head: " + err.Error()}, ctx.Err()
	}
	g, err := graphs(head.Digest, head.Entry, head.Agent, head.EntryOverride)
	if isReadFailure(err) {
		return machine.Proof{}, err
	}
	if err != nil {
		return machine.Proof{BadSeq: 1, Detail: "pack: " + err.Error()}, ctx.Err()
	}
	return Prove(ctx, view, ns, run, g)
}
