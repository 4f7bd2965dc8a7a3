package check

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// effectRows maps the keys of business-key rows to the values that journal entries imply. The entries
// are those of one run, or those of all replayed runs.
type effectRows map[string][]byte

// fold applies the changes that one journal entry makes to rows of business keys (the keys that make an
// effect happen only once).
func (e effectRows) fold(ops []layout.Op) {
	for i := range ops {
		op := &ops[i]
		switch {
		case op.Key[0] != layout.KindEffect:
		case op.Delete:
			delete(e, string(op.Key))
		default:
			e[string(op.Key)] = op.Value
		}
	}
}

// claims records the business keys that a run holds. A key may be held by only one step of all runs, so
// claims returns a fault for a key that is already held.
func (c *Checker) claims(ns uint32, run string, has effectRows) error {
	for key, value := range has {
		if other, twice := c.effects[key]; twice {
			return &Fault{Namespace: ns, Run: run, Row: "business key", Detail: fmt.Sprintf("%x: %s has it by its entries, too", key[5:], effectText(other))}
		}
		c.effects[key] = value
	}
	return nil
}

// keys checks that the row of each business key agrees with the entries of its run. It accepts the rows of
// deleted and erased runs, because their entries are missing or unreadable. If runs are not replayed, it only
// checks that the rows can be decoded.
func (c *Checker) keys() error {
	err := c.Each([]byte{layout.KindEffect}, func(key, value []byte) error {
		ns, sum, err := effectKey(key)
		if err != nil {
			return err
		}
		stored, err := codec.DecodeEffect(value)
		if err != nil {
			return &Fault{Namespace: ns, Row: "business key", Detail: fmt.Sprintf("%x: %v", sum, err)}
		}
		c.report.Keys++
		want, made := c.effects[string(key)]
		delete(c.effects, string(key))
		if made && !bytes.Equal(value, want) {
			return &Fault{Namespace: ns, Run: stored.RunID, Row: "business key", Detail: fmt.Sprintf("%x: is %s, entries make %s", sum, effectText(value), effectText(want))}
		}
		if made || c.graphs == nil {
			return nil
		}
		return c.checkUnreplayedEffect(ns, sum, &stored)
	})
	if err != nil || len(c.effects) == 0 || c.graphs == nil {
		return err
	}
	key := []byte(slices.Min(slices.Collect(maps.Keys(c.effects))))
	ns, sum, err := effectKey(key)
	if err != nil {
		return err
	}
	return &Fault{Namespace: ns, Row: "business key", Detail: fmt.Sprintf("%x: missing, %s has the effect", sum, effectText(c.effects[string(key)]))}
}

// checkUnreplayedEffect handles the row of a business key that no replayed entry makes. The row is correct if
// its run was deleted, or was erased and has this step. These runs could not be replayed. Otherwise
// checkUnreplayedEffect returns a fault.
func (c *Checker) checkUnreplayedEffect(ns uint32, sum []byte, stored *machine.Effect) error {
	value, err := layout.Get(c.Txn, layout.HeadKey(ns, stored.RunID))
	if err != nil || value == nil {
		return err
	}
	st, err := c.Txn.Head(value)
	if err != nil || st.Erased != nil && stored.Step <= st.LastStep {
		return err
	}
	return &Fault{Namespace: ns, Run: stored.RunID, Row: "business key", Detail: fmt.Sprintf("%x: step %d does not have the effect", sum, stored.Step)}
}

// keys removes the rows of business keys that do not follow from the entries of their runs. It keeps the rows
// of broken runs and of runs that have no entries. A row that cannot be decoded may belong to a broken run, so
// keys removes it only if there are none.
func (r *repairer) keys() error {
	return r.Each([]byte{layout.KindEffect}, func(key, value []byte) error {
		if _, made := r.wanted[r.hash(key)]; made {
			return nil
		}
		stored, err := codec.DecodeEffect(value)
		ns, _, malformed := effectKey(key)
		if err == nil && malformed == nil && !r.isReplayed(ns, stored.RunID) || err != nil && len(r.broken) > 0 {
			return nil
		}
		return r.put(layout.Op{Key: key, Delete: true}, wasRemoved)
	})
}

// isReplayed reports whether the run has entries and all of them were replayed. Only then it is known which
// rows the entries make, so that any other row of the run is wrong.
func (r *repairer) isReplayed(ns uint32, run string) bool {
	if r.broken[queueRun{ns, run}] {
		return false
	}
	_, there := r.readRow(layout.EntryKey(ns, run, 1))
	return there
}

func effectKey(key []byte) (ns uint32, sum []byte, err error) {
	if len(key) != 5+32 {
		return 0, nil, &Fault{Row: "business key", Detail: fmt.Sprintf("malformed key %x", key)}
	}
	return binary.BigEndian.Uint32(key[1:]), key[5:], nil
}

// effectText returns a text for errors. It names the step that holds a business key.
func effectText(value []byte) string {
	e, err := codec.DecodeEffect(value)
	if err != nil {
		return fmt.Sprintf("%x", value)
	}
	return fmt.Sprintf("step %s/%d (asked by record %d, answered by %d)", e.RunID, e.Step, e.PayloadSeq, e.AnswerSeq)
}
