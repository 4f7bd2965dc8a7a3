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

// These constants limit one read of a proof, in records and in bytes. They limit the time during which
// a transaction is open.
const (
	provenRecords = 256
	provenBytes   = 1 << 20
)

// View reads at the last synced group.
type View func(read func(txn *layout.Txn) error) error

// Prover checks the stored entries of one run, beginning with the first. The seqs must have no gap, the
// chain must be valid, and each input must make exactly the stored bytes.
type Prover struct {
	Ns  uint32
	Run string
	// Graph is the run's graph. If it is nil, the inputs are not replayed.
	Graph *machine.Graph
	// Keys are the run keys of the store. If Keys is nil, no entry may be sealed.
	Keys layout.Keyring
	// Progress is the replayed state. It is nil before the first entry. It is always nil if Graph is
	// nil.
	Progress *machine.State
	seq      uint64
	Chain    [32]byte
	entries  int64
	// erased means that the values of the run were erased. Then the run cannot be replayed.
	erased bool
}

func (p *Prover) fault(row string, seq uint64, format string, args ...any) error {
	return &Fault{Namespace: p.Ns, Run: p.Run, Seq: seq, Row: row, Detail: fmt.Sprintf(format, args...)}
}

// Next checks one entry. The second result contains the rows that the entry's input makes. It is nil
// without a graph.
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

// replay computes the entry from its input again and compares the resulting bytes.
func (p *Prover) replay(e *machine.Entry, value []byte) (*layout.Made, error) {
	result, err := rules.Repeat(p.Graph, p.Progress, e)
	if bad, ok := errors.AsType[*rules.ReplayError](err); ok {
		return nil, p.fault("entry", bad.Seq, "%s", bad.Detail)
	}
	if err != nil {
		return nil, p.fault("entry", e.First, "%v", err)
	}
	state := *result.State
	// An imported run is in the namespace into which it was imported. This namespace may differ from
	// the one in its entries.
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

// key returns the key with which an entry is sealed. It returns nil if the entry is not sealed. It
// returns a fault if the entry is sealed but its run is not erasable, or the other way round.
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

// proof returns the result of the checks so far. If err is a fault, the fault becomes part of the
// result. Any other error is returned.
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
// is the state after the records up to the head. If the run does not exist, the error is
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

// proveEnd compares the end of a journal with the used ids. After the stored head, only the ids show
// how long the run is. A missing entry without an id can be found only by the cursors, which a full
// check verifies.
func proveEnd(ctx context.Context, view View, p *Prover) error {
	return layout.EachRow(ctx, view, layout.RunKey(nil, layout.KindRunID, p.Ns, p.Run), func(_, value []byte) error {
		d, err := codec.LeftOfDedupe(machine.Dedupe{}, value)
		if err != nil {
			return p.fault("id", p.seq, "%v", err)
		}
		if d.Last <= p.seq {
			return nil
		}
		// More entries may have been added to the run after its last entry was read.
		if later, err := isThere(view, layout.EntryKey(p.Ns, p.Run, p.seq+1)); later || err != nil {
			return err
		}
		return p.fault("entry", p.seq+1, "missing: an id was used up by record %d", d.Last)
	})
}

// toProve returns the stored head of a run, both decoded and as bytes.
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

// deletedSince returns an error if the run was deleted during the proof. The deletion is the reason why
// rows are missing.
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

// provePage checks the next entries up to the record last in one bounded read. It reports whether more
// entries may follow. No entry up to the record head may be missing.
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

// ProveAll checks the journals of all runs. If run is not "", it checks only the runs with this id. It
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

// proveStored checks one run. The head of the run may be damaged.
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
