package convert

import (
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/budget"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// AccountToProto converts an account with its present amounts.
func AccountToProto(v *budget.View) *pawlv1.Account {
	return &pawlv1.Account{
		Name: v.Name, WindowStart: TimeToProto(v.Begin), WindowEnd: TimeToProto(v.End),
		SettledTokens: v.Settled.Tokens, SettledCostMicroUsd: v.Settled.CostMicro,
		ReservedTokens: v.Held.Tokens, ReservedCostMicroUsd: v.Held.CostMicro,
		MaxTokens: v.Limit.Tokens, MaxCostMicroUsd: v.Limit.CostMicro, Refused: v.Refused,
	}
}

// sharesToProto converts the amounts that a run has reserved and consumed in each account.
func sharesToProto(charges []machine.Charge) []*pawlv1.AccountShare {
	shares := make([]*pawlv1.AccountShare, len(charges))
	for i := range charges {
		c := &charges[i]
		shares[i] = &pawlv1.AccountShare{
			Name: c.Account, WindowStart: TimeToProto(c.Window),
			SettledTokens: c.Tokens, SettledCostMicroUsd: c.CostMicro,
			ReservedTokens: c.HeldTokens, ReservedCostMicroUsd: c.HeldCostMicro,
		}
	}
	return shares
}
