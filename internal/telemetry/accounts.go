package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// These are the metrics of accounts, which limit what many runs together spend. There is one series for each entry of
// the operator's file, for all values of its label together.
var (
	accountSettledDesc  = gauge("pawl_account_settled", "Usage settled in the current window of an account, by unit.", "account", "unit")
	accountReservedDesc = gauge("pawl_account_reserved", "Usage reserved in an account by steps in flight, by unit.", "account", "unit")
	accountLimitDesc    = gauge("pawl_account_limit", "Limit of an account for each value of its label, by unit.", "account", "unit")
	accountRefusedDesc  = gauge("pawl_account_refused_total", "Inputs that were refused because an account was exhausted.", "account")

	accountDescs = []*prometheus.Desc{accountSettledDesc, accountReservedDesc, accountLimitDesc, accountRefusedDesc}
)

// accounts adds the current amounts of all accounts to the metrics.
func (g *gauges) accounts() {
	for _, f := range g.source.AccountFigures() {
		both := func(d *prometheus.Desc, a machine.Amount) {
			g.add(d, float64(a.CostMicro), f.Name, "micro_usd")
			g.add(d, float64(a.Tokens), f.Name, "tokens")
		}
		both(accountSettledDesc, f.Settled)
		both(accountReservedDesc, f.Held)
		both(accountLimitDesc, f.Limit)
		g.count(accountRefusedDesc, float64(f.Refused), f.Name)
	}
}
