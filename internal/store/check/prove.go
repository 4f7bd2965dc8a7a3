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

// Limits of one read of a proof: the number of records and the bytes. They limit the time that a
// transaction stays open.
const (
	provenRecords = 256
	provenBytes   = 1 << 20
)

// View reads at the last synced group.
type View func(read func(txn *layout.Txn) error) error

// Prover checks the stored entries of one run from the first on: the seqs have no gap, the chain is
// valid, and each input makes exactly the stored bytes.
type Prover struct {
	Ns  uint32
	Run string
	// Graph is the run's graph. If it is nil, the inputs are not replayed.
	Graph *machine.Graph
	// Keys are the run keys of the store. If it is nil, no entry may be sealed.
	Keys layout.Keyring
	// Progress is the replayed state. It is nil before the first entry, and if Graph is nil.
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

// Next proves one entry. The second result is what its input makes, nil without a graph.
func (p *Prover) Next(value []byte) (*machine.Entry, *layout.Made, error) {
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
	var w *layout.Made
	if p.Graph != nil {
		if w, err = p.replay(&e, value); err != nil {
			return nil, nil, err
		}
	}
	p.seq, p.Chain = e.First+uint64(len(e.Records))-1, e.Hash
	p.entries++
	return &e, w, nil
}

// replay computes the entry from its input again and compares the bytes.
func (p *Prover) replay(e *machine.Entry, value []byte) (*layout.Made, error) {
	result, err := rules.Repeat(p.Graph, p.Progress, e)
	if bad, ok := errors.AsType[*rules.ReplayError](err); ok {
		return nil, p.fault("entry", bad.Seq, "%s", bad.Detail)
	}
	if err != nil {
		return nil, p.fault("entry", e.First, "%v", err)
	}
	state := *result.State
	// An imported run is in the namespace that it was imported into, which may differ from the one
	// in its entries.
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

// key returns the key that an entry is sealed under, or nil if the entry is not sealed. It returns
// a fault if only one of the two is true: the entry is sealed, or its run is erasable.
func (p *Prover) key(value []byte, erasable bool) (*seal.Key, error) {
	slot, ok := codec.Sealed(value)
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

// proof returns how far the proof came. A fault becomes part of the proof; any other error is
// returned.
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

// Prove proves the journal of one run up to its present last entry, and that the stored head is the
// state after the records up to it. If the run does not exist, the error is machine.ErrNoRun.
// Faults are in the returned proof. Prove only reads, and may run while the store is in use.
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

// proveEnd compares the end of a journal with the used ids, because after the stored head only the
// ids show how long the run is. A missing entry without an id is found by the cursors, which only a
// full check proves.
func proveEnd(ctx context.Context, view View, p *Prover) error {
	return layout.EachRow(ctx, view, layout.RunKey(nil, layout.KindRunID, p.Ns, p.Run), func(_, value []byte) error {
		d, err := codec.LeftOfDedupe(machine.Dedupe{}, value)
		if err != nil {
			return p.fault("id", p.seq, "%v", err)
		}
		if d.Last <= p.seq {
			return nil
		}
		// The run may have continued after its last entry was read.
		if later, err := isThere(view, layout.EntryKey(p.Ns, p.Run, p.seq+1)); later || err != nil {
			return err
		}
		return p.fault("entry", p.seq+1, "missing: an id was used up by record %d", d.Last)
	})
}

// toProve returns the stored head of a run and its bytes.
func toProve(view View, ns uint32, run string) (head *machine.State, value []byte, err error) {
	err = view(func(txn *layout.Txn) error {
		if value, err = layout.Get(txn, layout.HeadKey(ns, run)); err != nil {
			return err
		}
		if value == nil {
			return layout.Gone(txn, ns, run, machine.ErrNoRun)
		}
		head, err = txn.Head(value)
		return err
	})
	return head, value, err
}

// deletedSince returns an error if the run was deleted during the proof, which explains the missing
// rows.
func deletedSince(view View, ns uint32, run string) error {
	return view(func(txn *layout.Txn) error {
		if there, err := layout.There(txn, ns, run); err != nil || there {
			return err
		}
		return layout.Gone(txn, ns, run, nil)
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

// provePage proves the next entries up to the record last in one bounded read. It reports whether
// more entries may follow. No entry up to the record head may be missing.
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

// atHead compares the end of the journal with the stored head.
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

// ProveAll proves the journals of all runs, or only of the runs with the id run if it is not "". It
// calls report for each run, in the order of namespaces and ids.
func ProveAll(ctx context.Context, view View, run string, graphs Graphs, report func(ns uint32, run string, proof machine.Proof) error) error {
	var heads []*machine.State
	err := view(func(txn *layout.Txn) error {
		it := txn.Scan(kv.Range{Prefix: []byte{layout.KindHead}})
		defer it.Close()
		for it.Rewind(); layout.Has(it, []byte{layout.KindHead}); it.Next() {
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

// proveStored proves one run, even one whose head may be damaged.
func proveStored(ctx context.Context, view View, ns uint32, run string, graphs Graphs) (machine.Proof, error) {
	head, _, err := toProve(view, ns, run)
	if unread(err) {
		return machine.Proof{}, err
	}
	if err != nil {
		return machine.Proof{BadSeq: 1, Detail: "head: " + err.Error()}, ctx.Err()
	}
	g, err := graphs(head.Digest, head.Entry, head.Agent, head.EntryOverride)
	if unread(err) {
		return machine.Proof{}, err
	}
	if err != nil {
		return machine.Proof{BadSeq: 1, Detail: "pack: " + err.Error()}, ctx.Err()
	}
	return Prove(ctx, view, ns, run, g)
}
