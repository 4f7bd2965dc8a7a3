package tariff

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Table holds the operator's prices by model. Safe for concurrent use.
type Table struct {
	prices atomic.Pointer[map[string]machine.Price]
}

// New makes a table of prices that nobody changes any more.
func New(prices map[string]machine.Price) *Table {
	t := &Table{}
	t.Replace(prices)
	return t
}

// Replace puts other prices in force.
func (t *Table) Replace(prices map[string]machine.Price) { t.prices.Store(&prices) }

func (t *Table) all() map[string]machine.Price {
	if t == nil {
		return nil
	}
	return *t.prices.Load()
}

// Of is the operator's price of a model that its pack does not price; nil where the pack
// does, where there is none, and where no model is named.
func (t *Table) Of(g *machine.Graph, model string) *machine.Price {
	if _, ok := g.Prices[model]; ok || model == "" {
		return nil
	}
	if p, ok := t.all()[model]; ok {
		return &p
	}
	return nil
}

// Stamp returns usage with the operator's price of its model.
func (t *Table) Stamp(g *machine.Graph, u machine.Usage) machine.Usage {
	u.Price = t.Of(g, u.Model)
	return u
}

// Priced names the models that have a price in runs of a graph, in order.
func (t *Table) Priced(g *machine.Graph) []string {
	all := maps.Clone(t.all())
	if all == nil {
		all = make(map[string]machine.Price, len(g.Prices))
	}
	maps.Copy(all, g.Prices)
	return slices.Sorted(maps.Keys(all))
}

// Admit refuses a run that has a budget of cost and prompts that are written for a model
// which nobody prices.
func (t *Table) Admit(g *machine.Graph) error {
	if g.Budget.MaxCostMicroUSD == 0 {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(g.Prompts)) {
		for _, model := range g.Prompts[key].Models {
			if err := t.Check(g, model, "prompts."+key+".model_overrides"); err != nil {
				return err
			}
		}
	}
	return nil
}

// Check refuses a model that nobody prices, in a run that has a budget of cost; field is
// where the model is named.
func (t *Table) Check(g *machine.Graph, model, field string) error {
	if _, ok := g.Prices[model]; ok || g.Budget.MaxCostMicroUSD == 0 || t.Of(g, model) != nil {
		return nil
	}
	return &machine.Refusal{
		Code: machine.CodeFailedPrecondition, Reason: "MODEL_UNPRICED", Field: field, Allowed: t.Priced(g),
		Message: fmt.Sprintf("nobody says what the model %q costs, and the pack has a budget of cost (workflow.engine.x_pawl.max_cost_usd): "+
			"price it in the pack (workflow.engine.x_pawl.prices) or in the sidecar's file (--prices)", model),
	}
}

// StampOf is Stamp for usage that names no model where it is known which one it was.
func (t *Table) StampOf(model string, g *machine.Graph, u machine.Usage) machine.Usage {
	if u.Model == "" {
		u.Model = model
	}
	return t.Stamp(g, u)
}
