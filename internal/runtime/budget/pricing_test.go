package budget

import (
	"errors"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

func pricedGraph(budget int64, models ...string) *machine.Graph {
	return &machine.Graph{
		Prices: map[string]machine.Price{"packs": {Input: 1}}, Budget: machine.Budget{MaxCostMicroUSD: budget},
		Prompts: map[string]*machine.Prompt{"a": {}, "b": {Models: models}},
	}
}

// TestPrices: the pack's price comes before the operator's. A run with a budget of cost starts only if each
// model in its pack has a price from one of them.
func TestPrices(t *testing.T) {
	t.Parallel()
	table := NewPrices(map[string]machine.Price{"packs": {Input: 5}, "theirs": {Input: 7}})
	g := pricedGraph(1, "packs", "theirs")
	if p := table.PriceOf(g, "theirs"); p == nil || p.Input != 7 {
		t.Errorf("theirs is %v", p)
	}
	if u := table.Stamp(g, machine.Usage{Model: "theirs", Price: &machine.Price{}}); u.Price.Input != 7 {
		t.Errorf("stamped %v", u.Price)
	}
	for _, model := range []string{"packs", "", "other"} {
		if u := table.Stamp(g, machine.Usage{Model: model, Price: &machine.Price{}}); u.Price != nil {
			t.Errorf("%q is stamped %v", model, u.Price)
		}
	}
	if err := table.Admit(g, nil, packModel); err != nil {
		t.Error(err)
	}
	if err := (*Prices)(nil).Admit(pricedGraph(0, "other"), []string{"own"}, packModel); err != nil {
		t.Errorf("without a budget of cost: %v", err)
	}
	if err := (*Prices)(nil).Admit(pricedGraph(1, "packs"), nil, packModel); err != nil {
		t.Errorf("by the pack's price alone: %v", err)
	}
	table.Replace(nil)
	refusal, ok := errors.AsType[*machine.Error](table.Admit(g, nil, packModel))
	if !ok || refusal.Reason != "MODEL_UNPRICED" || refusal.Code != machine.CodeFailedPrecondition ||
		refusal.Field != "prompts.b.model_overrides" || !slices.Equal(refusal.Allowed, []string{"packs"}) {
		t.Errorf("got %+v", refusal)
	}
}

// TestAdmitOwn: for a run that the sidecar executes, only the models that its turns will ask need a price.
func TestAdmitOwn(t *testing.T) {
	t.Parallel()
	table := NewPrices(map[string]machine.Price{"first": {}})
	for _, tt := range []struct {
		own   []string
		field string
	}{
		{[]string{"first", "packs"}, ""},
		{[]string{"dear", "first"}, "execution"},
		{[]string{"first", "dear", "written"}, "prompts.b.model_overrides"},
		{nil, "prompts.b.model_overrides"},
	} {
		err := table.Admit(pricedGraph(1, "written"), tt.own, packModel)
		refusal, _ := errors.AsType[*machine.Error](err)
		if (refusal == nil) != (tt.field == "") || refusal != nil && refusal.Field != tt.field {
			t.Errorf("%v: %v", tt.own, err)
		}
	}
}

// packModel is the model that the pack names for a prompt.
func packModel(p *machine.Prompt) string { return p.Model }

// TestAdmitNamed: if the pack names a model for a prompt, only this model needs a price, both in runs of the
// sidecar and in runs of other executors.
func TestAdmitNamed(t *testing.T) {
	t.Parallel()
	table := NewPrices(map[string]machine.Price{"theirs": {}})
	g := pricedGraph(1)
	for _, own := range [][]string{nil, {"packs"}} {
		for model, want := range map[string]bool{"packs": true, "theirs": true, "other": false} {
			g.Prompts["b"].Model = model
			g.Prompts["a"].Model = "packs"
			refusal, ok := errors.AsType[*machine.Error](table.Admit(g, own, packModel))
			if ok == want || ok && refusal.Field != "workflow.engine.x_pawl.models" {
				t.Errorf("%q: %+v", model, refusal)
			}
		}
	}
}
