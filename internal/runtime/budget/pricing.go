package budget

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Prices holds the operator's prices of models. A price applies if the pack of the run does not price
// the model. A nil Prices is valid and contains no price. Each price is stamped into the input that
// uses it, so a new table does not change committed costs. Safe for concurrent use.
type Prices struct {
	prices atomic.Pointer[map[string]machine.Price]
}

// NewPrices returns a table of prices.
func NewPrices(prices map[string]machine.Price) *Prices {
	t := &Prices{}
	t.Replace(prices)
	return t
}

// Replace applies a new table of prices.
func (t *Prices) Replace(prices map[string]machine.Price) { t.prices.Store(&prices) }

func (t *Prices) all() map[string]machine.Price {
	if t == nil {
		return nil
	}
	return *t.prices.Load()
}

// Of returns the operator's price of a model that its pack does not price. It returns nil if the
// pack prices the model, if there is no price, or if model is "".
func (t *Prices) Of(g *machine.Graph, model string) *machine.Price {
	if _, ok := g.Prices[model]; ok || model == "" {
		return nil
	}
	if p, ok := t.all()[model]; ok {
		return &p
	}
	return nil
}

// Stamp returns u with the operator's price of its model added.
func (t *Prices) Stamp(g *machine.Graph, u machine.Usage) machine.Usage {
	u.Price = t.Of(g, u.Model)
	return u
}

// Priced lists the models that have a price in runs of a graph, in order.
func (t *Prices) Priced(g *machine.Graph) []string {
	all := maps.Clone(t.all())
	if all == nil {
		all = make(map[string]machine.Price, len(g.Prices))
	}
	maps.Copy(all, g.Prices)
	return slices.Sorted(maps.Keys(all))
}

// Admit returns an error for a run that has a cost budget and may call a model without a price. It
// checks the models that the run sets for its prompts. If the run sets none, it checks the models that
// the prompts declare. If the sidecar itself executes the run, own are the sidecar's models, and the
// model of each prompt's turns is known.
func (t *Prices) Admit(g *machine.Graph, own []string) error {
	if g.Budget.MaxCostMicroUSD == 0 {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(g.Prompts)) {
		models, field := g.Prompts[key].Models, "prompts."+key+".model_overrides"
		if model := g.Prompts[key].Model; model != "" {
			models, field = []string{model}, "workflow.engine.x_pawl.models"
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

// Check returns an error if a run has a cost budget and the model has no price. field is the name of
// the request field that contains the model.
func (t *Prices) Check(g *machine.Graph, model, field string) error {
	if _, ok := g.Prices[model]; ok || g.Budget.MaxCostMicroUSD == 0 || t.Of(g, model) != nil {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "MODEL_UNPRICED", Field: field, Allowed: t.Priced(g),
		Message: fmt.Sprintf("the model %q has no price, and the pack has a budget of cost (workflow.engine.x_pawl.max_cost_usd): "+
			"price it in the pack (workflow.engine.x_pawl.prices) or in the sidecar's file (--prices)", model),
	}
}

// StampOf returns u with the operator's price of the requested model added. The provider may report
// another name for that model. If model is "", the requested model is unknown.
func (t *Prices) StampOf(model string, g *machine.Graph, u machine.Usage) machine.Usage {
	if model != "" {
		u.Model = model
	}
	return t.Stamp(g, u)
}
