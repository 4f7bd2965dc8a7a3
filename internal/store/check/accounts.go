package check

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// accountSums maps the key of each account's row to the charges of all runs to this account.
type accountSums map[string][]machine.Charge

// add adds the charges of a run to the sums. It ignores an imported run, whose charges belong to the
// store from which it was exported.
func (a accountSums) add(st *machine.State) {
	if st.Imported {
		return
	}
	for _, c := range st.Charges {
		key := string(layout.AccountKey(nil, st.Namespace, c.Account))
		a[key] = append(a[key], c)
	}
}

// row returns the row that an account must have: the sum of the charges of its runs. Two values come
// from the stored row, because no run contains them. They are the newest time window of the account, and
// the amounts that deleted runs used in this window.
func (a accountSums) row(key string, stored machine.AccountRow) machine.AccountRow {
	row := machine.AccountRow{Window: stored.Window}
	for _, c := range a[key] {
		row.Window = max(row.Window, c.Window)
	}
	if row.Window == stored.Window {
		row.Tokens, row.CostMicro = stored.GoneTokens, stored.GoneCostMicro
		row.GoneTokens, row.GoneCostMicro = stored.GoneTokens, stored.GoneCostMicro
	}
	for _, c := range a[key] {
		row.Add(machine.ChargeChange{After: c})
	}
	return row
}

// accounts checks that the row of each account is the sum of the charges of its runs.
func (c *Checker) accounts() error {
	err := c.Each([]byte{layout.KindAccount}, func(key, value []byte) error {
		ns, name, err := layout.RunOf(key)
		if err != nil {
			return err
		}
		stored, err := codec.DecodeAccount(value)
		if err != nil {
			return &Fault{Namespace: ns, Row: "account", Detail: fmt.Sprintf("%s: %v", name, err)}
		}
		c.report.Accounts++
		if want := c.sums.row(string(key), stored); want != stored {
			return &Fault{Namespace: ns, Row: "account", Detail: fmt.Sprintf("%s: is %+v, its runs make %+v", name, stored, want)}
		}
		delete(c.sums, string(key))
		return nil
	})
	if err != nil {
		return err
	}
	if len(c.sums) == 0 {
		return nil
	}
	ns, name, err := layout.RunOf([]byte(slices.Min(slices.Collect(maps.Keys(c.sums)))))
	if err != nil {
		return err
	}
	return &Fault{Namespace: ns, Row: "account", Detail: name + ": missing, runs are charged to it"}
}

// accounts rewrites the rows of accounts that are not the sums of the charges of their runs. If a row
// cannot be read, the amounts that deleted runs had used are lost.
func (r *repairer) accounts() error {
	r.unreplayed()
	err := r.Each([]byte{layout.KindAccount}, func(key, value []byte) error {
		if _, known := r.sums[string(key)]; known {
			return nil
		}
		return r.oneAccount(string(key), value, true)
	})
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(r.sums)) {
		value, there := r.readRow([]byte(key))
		if err := r.oneAccount(key, value, there); err != nil {
			return err
		}
	}
	return nil
}

// oneAccount compares the row of one account with the charges of its runs, and rewrites the row if they differ.
// there reports whether the row exists.
func (r *repairer) oneAccount(key string, value []byte, there bool) error {
	stored, err := codec.DecodeAccount(value)
	if err != nil {
		stored = machine.AccountRow{}
	}
	want := r.sums.row(key, stored)
	if err == nil && want == stored {
		return nil
	}
	count := wasMade
	if there {
		count = wasChanged
	}
	return r.put(layout.Op{Key: []byte(key), Value: codec.EncodeAccount(&want)}, count)
}

// unreplayed adds the charges of the runs that cannot be replayed to the sums. It takes the charges
// from the stored states of these runs. A run whose state cannot be read adds nothing.
func (r *repairer) unreplayed() {
	for run := range r.broken {
		value, err := layout.Get(r.Txn, layout.HeadKey(run.ns, run.run))
		if err != nil || value == nil {
			continue
		}
		if st, err := r.Txn.Head(value); err == nil {
			r.sums.add(st)
		}
	}
}
