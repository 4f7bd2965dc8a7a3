package server

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/runtime/budget"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// readBudgets reads the operator's accounts.
func readBudgets(c config.Config) (*budget.Table, error) {
	if c.Budgets == "" {
		return budget.NewTable(nil)
	}
	file, place, err := config.ReadBudgets(c.Budgets)
	if err != nil {
		return nil, err
	}
	accounts := make([]budget.Account, len(file.Accounts))
	for i, b := range file.Accounts {
		accounts[i] = budget.Account{
			Label: b.Label, Value: b.Value, Window: budget.Window(b.Window), Zone: b.TimeZone, MaxTokens: b.MaxTokens, MaxCostMicro: limitOf(b.MaxCostUSD),
		}
	}
	table, err := budget.NewTable(accounts)
	if wrong, ok := errors.AsType[budget.Faults](err); ok {
		fault := &config.Error{}
		for _, f := range wrong {
			fault.Faults = append(fault.Faults, config.Fault{Field: place(f.Field), Message: f.Message})
		}
		return nil, fault
	}
	return table, err
}

// limitOf converts a limit from US dollars to micro-dollars. A negative limit means that there is no
// limit, and becomes -1.
func limitOf(usd float64) int64 {
	if usd >= 0 {
		return machine.MicroUSD(usd)
	}
	return -1
}

// loadAccounts reads the stored accounts and puts them, with the prices of models and the operator's budgets,
// into the configuration of the runtime.
func (t *partition) loadAccounts(conf *services.Config) error {
	var rows []machine.AccountRow
	err := t.store.View(func(txn *layout.Txn) (err error) {
		rows, err = layout.Accounts(txn)
		return err
	})
	if err != nil {
		return fmt.Errorf("read accounts: %w", err)
	}
	t.prices, t.accounts = budget.NewPrices(t.files.prices), budget.New(t.files.budgets, rows)
	conf.Prices, conf.Accounts = t.prices, t.accounts
	return nil
}
