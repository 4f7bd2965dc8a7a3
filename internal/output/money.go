package output

import (
	"fmt"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// MoneyLine is one line about the consumption of a run.
type MoneyLine struct{ Label, Text string }

// Money returns lines about what a run has consumed and reserved, and about the accounts that count it. It returns no lines for a run that
// has consumed and reserved nothing and has no accounts.
func Money(r *pawlv1.Run) (lines []MoneyLine) {
	if r.GetTokens() > 0 || r.GetCostMicroUsd() > 0 {
		text := amount(r.GetTokens(), r.GetCostMicroUsd())
		if n := r.GetEstimatedTokens(); n > 0 {
			text += fmt.Sprintf("; %d of the tokens are estimated, since their usage was not reported", n)
		}
		lines = append(lines, MoneyLine{"consumed", text})
	}
	if r.GetReservedTokens() > 0 || r.GetReservedCostMicroUsd() > 0 {
		text := amount(r.GetReservedTokens(), r.GetReservedCostMicroUsd())
		if r.GetLentTokens() > 0 || r.GetLentCostMicroUsd() > 0 {
			text += ", of that leased to agents " + amount(r.GetLentTokens(), r.GetLentCostMicroUsd())
		}
		lines = append(lines, MoneyLine{"reserved", text})
	}
	for _, a := range r.GetAccounts() {
		lines = append(lines, MoneyLine{"account", fmt.Sprintf("%s: %s settled, %s reserved",
			a.GetName(), amount(a.GetSettledTokens(), a.GetSettledCostMicroUsd()), amount(a.GetReservedTokens(), a.GetReservedCostMicroUsd()))})
	}
	return lines
}

// Cost returns the cost of tokens as text. If there are tokens and the cost is 0, the model has no price.
func Cost(tokens, micro int64) string {
	if micro == 0 && tokens != 0 {
		return "no price"
	}
	return Dollars(micro)
}

func amount(tokens, costMicro int64) string {
	if tokens == 0 && costMicro == 0 {
		return "0 tokens"
	}
	return fmt.Sprintf("%d tokens, %s", tokens, Cost(tokens, costMicro))
}
