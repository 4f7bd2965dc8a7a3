package rules

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Prices (section 6). What tokens cost is the machine's to say, of the pack's price, else
// of the operator's that is stamped into the input: an input is priced once, for ever.

// price checks usage and makes its cost: that of the model's price, whatever the executor
// says; what the executor says, where the model has none or is not named. Tokens with
// neither are refused in a run that has a budget of cost: they are not free.
func (t *txn) price(u machine.Usage) (machine.Usage, error) {
	if err := CheckUsage(u); err != nil {
		return u, err
	}
	if p := PriceOf(t.g, &u); p != nil {
		u.CostMicro = p.Cost(u)
		return u, nil
	}
	if !t.rules.costIsKnown || LimitOf(t.g, t.s).CostMicro == 0 || u.CostMicro > 0 || u.InputTokens|u.OutputTokens == 0 {
		return u, nil
	}
	return u, Unpriced(u.Model, "usage.model")
}

// PriceOf is the price of the model that usage names; nil = nobody has one.
func PriceOf(g *machine.Graph, u *machine.Usage) *machine.Price {
	if u.Model == "" {
		return nil
	}
	if p, ok := g.Prices[u.Model]; ok {
		return &p
	}
	return u.Price
}

// Unpriced refuses what a run with a budget of cost would do by a model of which nobody
// knows what it costs; field is where the model is named. "" = it is not named at all.
func Unpriced(model, field string) error {
	what := fmt.Sprintf("nobody says what the model %q costs", model)
	if model == "" {
		what = "tokens without a cost, and without the model that took them"
	}
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "MODEL_UNPRICED", Field: field,
		Message: what + ", and the run has a budget of cost (x_pawl.max_cost_usd): " +
			"price the model in the pack (x_pawl.prices) or in the sidecar's file (--prices), or state cost_micro_usd",
	}
}
