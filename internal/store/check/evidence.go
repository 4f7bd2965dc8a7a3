package check

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// evidence looks for lost entries. A head (stored current state) or a used request id may refer to a
// later record than the run's last entry. evidence marks these runs as broken, so that the repair does
// not change their other rows.
func (r *repairer) evidence() error {
	for _, kind := range []byte{layout.KindHead, layout.KindRunID, layout.KindCallerID} {
		it := r.Txn.Scan(kv.Range{Prefix: []byte{kind}})
		for it.Rewind(); layout.AtPrefix(it, []byte{kind}); it.Next() {
			if err := errors.Join(r.Ended(), r.addEvidence(it)); err != nil {
				it.Close()
				return err
			}
		}
		it.Close()
	}
	return nil
}

// addEvidence marks a run as broken if one of its rows refers to a record that no entry contains. It
// ignores a row whose value cannot be read.
func (r *repairer) addEvidence(item *kv.Iterator) error {
	key := item.KeyCopy()
	if _, ok := r.wanted[r.hash(key)]; ok {
		return nil
	}
	value, err := layout.CopyOf(item)
	if err != nil {
		return nil //nolint:nilerr // The row follows from no entry, so it is removed later.
	}
	ns, run, last, ok := lastRecordOf(key, value)
	if !ok || r.broken[queueRun{ns, run}] {
		return nil
	}
	ends, err := r.lastOf(ns, run)
	if err != nil || last <= ends {
		return err
	}
	r.broken[queueRun{ns, run}] = true
	r.result.Broken = append(r.result.Broken, &Fault{
		Namespace: ns, Run: run, Seq: ends + 1, Row: "entry",
		Detail: fmt.Sprintf("missing: %s row tells of record %d", layout.Kinds[key[0]].Row, last),
	})
	return nil
}

// lastOf returns the seq of the last record in the entries of a run. It returns 0 if the run has no
// entries.
func (r *repairer) lastOf(ns uint32, run string) (last uint64, err error) {
	err = r.Each(layout.RunKey(nil, layout.KindEntry, ns, run), func(_, value []byte) error {
		first, records, err := codec.EntrySpan(value)
		last = first + uint64(records) - 1
		return err
	})
	return last, err
}

// lastRecordOf returns the run and the last record that a head (stored current state) or the row of a
// used id refers to. It returns false if the row cannot be decoded.
func lastRecordOf(key, value []byte) (ns uint32, run string, last uint64, ok bool) {
	ns = binary.BigEndian.Uint32(key[1:5])
	switch key[0] {
	case layout.KindHead:
		st, err := codec.LeftOfHead(bytes.Clone(value))
		_, run, bad := layout.RunOf(key)
		return ns, run, seqOf(st), err == nil && bad == nil && st.RunID == run
	case layout.KindCallerID:
		d, err := codec.LeftOfDedupe(machine.Dedupe{Scope: machine.PerPrincipal}, value)
		return ns, d.RunID, d.Last, err == nil && d.RunID != ""
	}
	_, run, err := layout.RunOf(key)
	d, bad := codec.LeftOfDedupe(machine.Dedupe{Scope: machine.PerRun}, value)
	return ns, run, d.Last, err == nil && bad == nil
}

func seqOf(st *machine.State) uint64 {
	if st == nil {
		return 0
	}
	return st.Seq
}
