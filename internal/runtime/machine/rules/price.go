package rules

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Prices (semantics §6). The machine computes the cost of tokens from the pack's price. If the pack has
// no price, it uses the operator's price, which is stamped into the input. So the cost of an input
// never changes.

// price checks usage and computes its cost. If the model has a price, this price applies, and the cost that the executor reported is
// ignored. If the model has no price or is not named, the reported cost applies. If there is neither, a run with a cost budget refuses
// the tokens, because they are not free.
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

// PriceOf returns the price of the model in the usage. It returns nil if there is no price.
func PriceOf(g *machine.Graph, u *machine.Usage) *machine.Price {
	if u.Model == "" {
		return nil
	}
	if p, ok := g.Prices[u.Model]; ok {
		return &p
	}
	return u.Price
}

// Unpriced returns the error for using a model without a price in a run with a cost budget. field is the request field that names the
// model. If model is "", the request does not name a model.
func Unpriced(model, field string) error {
	what := fmt.Sprintf("the model %q has no price", model)
	if model == "" {
		what = "tokens without a cost, and without the model that took them"
	}
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "MODEL_UNPRICED", Field: field,
		Message: what + ", and the run has a budget of cost (x_pawl.max_cost_usd): " +
			"price the model in the pack (x_pawl.prices) or in the sidecar's file (--prices), or state cost_micro_usd",
	}
}
