package budget

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Prices contains the operator's prices of models. They apply to models that the pack of a run does
// not price. A nil Prices is valid and contains no price. The price that an input uses is stored in
// the input, so a new table does not change committed costs. Safe for concurrent use.
type Prices struct {
	prices atomic.Pointer[map[string]machine.Price]
}

// NewPrices returns a table of prices.
func NewPrices(prices map[string]machine.Price) *Prices {
	t := &Prices{}
	t.Replace(prices)
	return t
}

// Replace replaces the table of prices.
func (t *Prices) Replace(prices map[string]machine.Price) { t.prices.Store(&prices) }

func (t *Prices) byModel() map[string]machine.Price {
	if t == nil {
		return nil
	}
	return *t.prices.Load()
}

// PriceOf returns the operator's price of a model. It returns nil if the pack prices the model, if there is
// no price, or if model is "".
func (t *Prices) PriceOf(g *machine.Graph, model string) *machine.Price {
	if _, ok := g.Prices[model]; ok || model == "" {
		return nil
	}
	if p, ok := t.byModel()[model]; ok {
		return &p
	}
	return nil
}

// Stamp returns u with the operator's price of its model, so that the price is stored in the input.
func (t *Prices) Stamp(g *machine.Graph, u machine.Usage) machine.Usage {
	u.Price = t.PriceOf(g, u.Model)
	return u
}

// Priced returns the names of the models that have a price in runs of a graph, sorted.
func (t *Prices) Priced(g *machine.Graph) []string {
	all := maps.Clone(t.byModel())
	if all == nil {
		all = make(map[string]machine.Price, len(g.Prices))
	}
	maps.Copy(all, g.Prices)
	return slices.Sorted(maps.Keys(all))
}

// Admit returns an error for a run that has a cost budget and may call a model without a price. For
// each prompt it checks the model that the run sets, which named returns. If named returns "", it
// checks the models that the prompt declares. If the sidecar itself executes the run, own are the
// sidecar's models, and only the model that it would use is checked.
func (t *Prices) Admit(g *machine.Graph, own []string, named func(*machine.Prompt) string) error {
	if g.Budget.MaxCostMicroUSD == 0 {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(g.Prompts)) {
		models, field := g.Prompts[key].Models, "prompts."+key+".model_overrides"
		if model := named(g.Prompts[key]); model != "" {
			models, field = []string{model}, "workflow.engine.x_pawl.models"
			if g.Prompts[key].Model == "" {
				field = "prompts." + key + ".provider"
			}
		} else if len(own) > 0 {
			chosen := slices.IndexFunc(own, func(name string) bool { return slices.Contains(models, name) })
			if chosen < 0 {
				chosen, field = 0, "execution"
			}
			models = own[chosen : chosen+1]
		}
		for _, model := range models {
			if err := t.Check(g, model, field); err != nil {
				return err
			}
		}
	}
	return nil
}

// Check returns an error if the runs of a graph have a cost budget and the model has no price. field
// is the name of the request field that contains the model.
func (t *Prices) Check(g *machine.Graph, model, field string) error {
	if _, ok := g.Prices[model]; ok || g.Budget.MaxCostMicroUSD == 0 || t.PriceOf(g, model) != nil {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "MODEL_UNPRICED", Field: field, Allowed: t.Priced(g),
		Message: fmt.Sprintf("the model %q has no price, and the pack has a budget of cost (workflow.engine.x_pawl.max_cost_usd): "+
			"price it in the pack (workflow.engine.x_pawl.prices) or in the sidecar's file (--prices)", model),
	}
}

// StampOf returns u with the operator's price of the requested model. The requested name is used
// because the provider may report another name for the same model. If model is "", the name in u is
// used.
func (t *Prices) StampOf(model string, g *machine.Graph, u machine.Usage) machine.Usage {
	if model != "" {
		u.Model = model
	}
	return t.Stamp(g, u)
}
