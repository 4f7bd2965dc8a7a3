package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// An entry of the operator's file is one account here, whatever the values of its label: so
// there are as many series as entries.
var (
	accountSettledDesc  = gauge("pawl_account_settled", "What runs consumed in the windows of an account, by unit.", "account", "unit")
	accountReservedDesc = gauge("pawl_account_reserved", "What steps under way may consume of an account, by unit.", "account", "unit")
	accountLimitDesc    = gauge("pawl_account_limit", "Limit of an account, of each value of its label by itself, by unit.", "account", "unit")
	accountRefusedDesc  = gauge("pawl_account_refused_total", "Inputs that an account did not hold.", "account")

	accountDescs = []*prometheus.Desc{accountSettledDesc, accountReservedDesc, accountLimitDesc, accountRefusedDesc}
)

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
