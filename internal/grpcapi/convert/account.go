package convert

import (
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/account"
)

// AccountToProto shows an account as it stands.
func AccountToProto(v *account.View) *pawlv1.Account {
	return &pawlv1.Account{
		Name: v.Name, WindowStart: TimeToProto(v.Begin), WindowEnd: TimeToProto(v.End),
		SettledTokens: v.Settled.Tokens, SettledCostMicroUsd: v.Settled.CostMicro,
		ReservedTokens: v.Held.Tokens, ReservedCostMicroUsd: v.Held.CostMicro,
		MaxTokens: v.Limit.Tokens, MaxCostMicroUsd: v.Limit.CostMicro,
	}
}
