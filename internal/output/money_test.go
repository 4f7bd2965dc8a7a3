package output

import (
	"slices"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

func TestMoney(t *testing.T) {
	for _, c := range []struct {
		run  *pawlv1.Run
		want []MoneyLine
	}{
		{&pawlv1.Run{}, nil},
		{&pawlv1.Run{Tokens: 12, CostMicroUsd: 30_000}, []MoneyLine{{"consumed", "12 tokens, " + Dollars(30_000)}}},
		{&pawlv1.Run{Tokens: 12}, []MoneyLine{{"consumed", "12 tokens, no price"}}},
		{&pawlv1.Run{ReservedCostMicroUsd: 50_000}, []MoneyLine{{"reserved", "0 tokens, " + Dollars(50_000)}}},
		{&pawlv1.Run{ReservedTokens: 7, ReservedCostMicroUsd: 50_000, LentTokens: 3, LentCostMicroUsd: 20_000}, []MoneyLine{
			{"reserved", "7 tokens, " + Dollars(50_000) + ", of that leased to agents 3 tokens, " + Dollars(20_000)},
		}},
		{&pawlv1.Run{Accounts: []*pawlv1.AccountShare{{Name: "tenant=acme/day", SettledTokens: 5, ReservedCostMicroUsd: 9}}}, []MoneyLine{
			{"account", "tenant=acme/day: 5 tokens, no price settled, 0 tokens, " + Dollars(9) + " reserved"},
		}},
		{&pawlv1.Run{Accounts: []*pawlv1.AccountShare{{Name: "a"}}}, []MoneyLine{{"account", "a: 0 tokens settled, 0 tokens reserved"}}},
	} {
		if got := Money(c.run); !slices.Equal(got, c.want) {
			t.Errorf("%v: %q, want %q", c.run, got, c.want)
		}
	}
}
