package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/store/check"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

const acmeDay = "tenant=acme/day"

// commitCharged commits an input of a run whose usage counts in two accounts: in the given window of the
// account of the day, and in the account without windows.
func (w *world) commitCharged(st *machine.State, window int64, c machine.Command) (*machine.State, error) {
	in := machine.Input{At: w.at, Principal: "anonymous", Semantics: machine.Current, Command: c, Billed: []machine.Bill{
		{Account: acmeDay, Window: window}, {Account: "/ever"},
	}}
	r, err := rules.Step(w.graph, st, in)
	if err == nil {
		_, err = w.store.Commit(context.Background(), r.Batch)
	}
	return r.State, err
}

// talk makes model calls in a run. Each call but the last is answered and uses as much as it reserved. The
// last call stays open.
func (w *world) talk(run string, window int64, calls int) *machine.State {
	w.t.Helper()
	st, err := w.commitCharged(nil, window, machine.Start{RunID: run, Execution: machine.Caller, Labels: []machine.Label{{Key: "tenant", Value: "acme"}}})
	for n := 1; n <= calls && err == nil; n++ {
		st, err = w.commitCharged(st, window, machine.RequestModel{
			TurnSeq: st.Turn.Seq, Attempt: 1, Round: n, Model: &machine.ModelRequest{Model: "m"}, Bound: machine.Usage{OutputTokens: 10, CostMicro: 7},
		})
		if err == nil && n < calls {
			st, err = w.commitCharged(st, window, machine.AnswerModel{
				TurnSeq: st.Turn.Seq, TurnAttempt: 1, Step: uint32(n), Attempt: 1, Answer: &machine.ModelAnswer{Refusal: "no"},
				Usage: machine.Usage{OutputTokens: 10, CostMicro: 7},
			})
		}
	}
	if err != nil {
		w.t.Errorf("run %s: %v", run, err)
	}
	return st
}

func (w *world) account(name string) machine.AccountRow {
	w.t.Helper()
	var found machine.AccountRow
	err := w.store.View(func(txn *layout.Txn) error {
		all, err := layout.Accounts(txn)
		for _, row := range all {
			if row.Account == name {
				found = row
			}
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

func (w *world) wantAccount(want machine.AccountRow) {
	w.t.Helper()
	if got := w.account(want.Account); got != want {
		w.t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestAccountRows: the amounts of runs that commit at the same time add up. A restart reads the stored
// amounts. The deletion of a run removes none of them. A new window begins with the reserved amounts only.
func TestAccountRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, openTemp(t))
	const runs, calls = 40, 6
	var all sync.WaitGroup
	for i := range runs {
		all.Go(func() { w.talk(fmt.Sprintf("R%d", i), 100, calls) })
	}
	all.Wait()
	settled, held := int64(runs*(calls-1)), int64(runs)
	row := machine.AccountRow{Account: acmeDay, Window: 100, Tokens: 10 * settled, CostMicro: 7 * settled, HeldTokens: 10 * held, HeldCostMicro: 7 * held}
	w.wantAccount(row)
	if report := w.check(); report.Accounts != 2 {
		t.Errorf("%+v", report)
	}
	st, err := w.store.Head(t.Context(), 0, "R0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.commitCharged(st, 100, machine.Cancel{}); err != nil {
		t.Fatal(err)
	}
	row.HeldTokens, row.HeldCostMicro = row.HeldTokens-10, row.HeldCostMicro-7
	w.delete("R0")
	row.GoneTokens, row.GoneCostMicro = 10*(calls-1), 7*(calls-1)
	w.wantAccount(row)
	w.check()
	w.store = reopen(t, w.store)
	w.wantAccount(row)
	w.talk("new", 200, 2)
	w.wantAccount(machine.AccountRow{Account: acmeDay, Window: 200, Tokens: 10, CostMicro: 7, HeldTokens: row.HeldTokens + 10, HeldCostMicro: row.HeldCostMicro + 7})
	// A run that charges an earlier window counts in no window.
	w.talk("late", 100, 2)
	w.wantAccount(machine.AccountRow{Account: acmeDay, Window: 200, Tokens: 10, CostMicro: 7, HeldTokens: row.HeldTokens + 20, HeldCostMicro: row.HeldCostMicro + 14})
	ever := w.account("/ever")
	if ever.Tokens != 10*(settled+2) || ever.GoneTokens != 10*(calls-1) {
		t.Errorf("%+v", ever)
	}
	w.check()
}

// TestImportedRunsAreCharged: an imported run is charged only in the store in which it ran.
func TestImportedRunsAreCharged(t *testing.T) {
	t.Parallel()
	w := travelWorld(t)
	st := w.talk("R", 100, 3)
	w.runs["R"] = st
	file := w.export("R")
	other := openTemp(t)
	if _, _, err := w.importInto(other, 0, file); err != nil {
		t.Fatal(err)
	}
	w.store = other
	w.wantAccount(machine.AccountRow{Account: ""})
	w.check()
	w.delete("R")
	w.check()
}

// TestAccountsAreChecked: a check finds an account row that differs from the sum of its runs, and a repair
// writes it again.
func TestAccountsAreChecked(t *testing.T) {
	t.Parallel()
	key := layout.AccountKey(nil, 0, acmeDay)
	for name, spoil := range map[string]func(row *machine.AccountRow) *layout.Op{
		"missing":    func(*machine.AccountRow) *layout.Op { return &layout.Op{Key: key, Delete: true} },
		"unreadable": func(*machine.AccountRow) *layout.Op { return &layout.Op{Key: key, Value: []byte("x")} },
		"more settled": func(row *machine.AccountRow) *layout.Op {
			row.CostMicro++
			return &layout.Op{Key: key, Value: codec.EncodeAccount(row)}
		},
		"less held": func(row *machine.AccountRow) *layout.Op {
			row.HeldTokens--
			return &layout.Op{Key: key, Value: codec.EncodeAccount(row)}
		},
		"nobody's": func(row *machine.AccountRow) *layout.Op {
			return &layout.Op{Key: layout.AccountKey(nil, 0, "tenant=nobody/day"), Value: codec.EncodeAccount(row)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, openTemp(t))
			w.talk("A", 100, 4)
			w.talk("B", 100, 2)
			want := w.account(acmeDay)
			row := want
			raw(t, w.store, *spoil(&row))
			_, err := w.store.Check(t.Context(), w.graphs)
			var fault *check.Fault
			if !errors.As(err, &fault) || fault.Row != "account" || !strings.Contains(fault.Detail, "tenant=") {
				t.Fatalf("got %v", err)
			}
			w.repair()
			w.wantAccount(want)
			w.store = reopen(t, w.store)
			w.check()
		})
	}
}
