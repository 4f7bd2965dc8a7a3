package config

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/pack/source"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
)

// Price is the price of a model's tokens, in US dollars per million tokens, with the same fields as in
// x_pawl.prices of a pack.
type Price struct {
	Input, Output float64
	// Cached and Reasoning are optional. nil means the price of Input for cached tokens, and of Output
	// for reasoning tokens.
	Cached, Reasoning *float64
}

// maxPrice bounds a price, in US dollars per million tokens. Prices in packs (x_pawl.prices) have the same bound.
const maxPrice = 1_000_000

// priceFields are the names of the fields of a price. input and output are required.
var priceFields = []string{"cached", "input", "output", "reasoning"}

// ReadPrices reads the file of [Config.Prices], YAML or JSON: prices by model. Errors: an [*Error] with all
// faults of the content.
func ReadPrices(path string) (map[string]Price, error) {
	raw, err := readTable("prices file", path)
	if err != nil {
		return nil, err
	}
	l := &priceList{placed{path: path}}
	root, f := source.Read(raw, fileLimits, func(twice source.DuplicateName) {
		l.at(twice.Line, twice.Col, strings.Join(twice.Path, "."), "is given twice")
	})
	switch {
	case f != nil:
		return nil, &Error{Faults: []Fault{{Field: path, Message: f.Error()}}}
	case root.Kind != source.Object:
		l.at(root.Line, root.Col, "", "want an object of prices by model")
	}
	prices := make(map[string]Price, len(root.Members))
	for i := range root.Members {
		m := &root.Members[i]
		if m.Name == "" || len(m.Name) > 256 {
			l.at(m.Line, m.Col, source.Clip(m.Name, 80), "a model's name has 1 to 256 bytes, got %d", len(m.Name))
		}
		prices[m.Name] = l.price(m)
	}
	if len(l.list) > 0 {
		return nil, &Error{Faults: l.list}
	}
	return prices, nil
}

// priceList collects the faults of one file.
type priceList struct{ placed }

// price reads the figures of one model.
func (l *priceList) price(model *source.Member) (p Price) {
	given, at := model.Value, source.Clip(model.Name, 80)
	if given.Kind != source.Object {
		l.at(model.Line, model.Col, at, "want an object of %s", strings.Join(priceFields, ", "))
		return p
	}
	for i := range given.Members {
		m := &given.Members[i]
		field := at + "." + source.Clip(m.Name, 80)
		if !slices.Contains(priceFields, m.Name) {
			l.unknown(m, field, priceFields)
			continue
		}
		p.set(m.Name, l.dollars(m, field))
	}
	for _, name := range []string{"input", "output"} {
		if given.Get(name) == nil {
			l.at(model.Line, model.Col, at+"."+name, "is required: US dollars for a million tokens")
		}
	}
	return p
}

func (p *Price) set(name string, usd float64) {
	switch name {
	case "input":
		p.Input = usd
	case "output":
		p.Output = usd
	case "cached":
		p.Cached = &usd
	case "reasoning":
		p.Reasoning = &usd
	}
}

// dollars reads one figure.
func (l *priceList) dollars(m *source.Member, field string) float64 {
	if v := m.Value; v.Kind == source.Number && v.Num >= 0 && v.Num <= maxPrice {
		return v.Num
	}
	l.at(m.Line, m.Col, field, "is %s, want a number of US dollars from 0 to %d", shown(m.Value), maxPrice)
	return 0
}

// shown returns a value of the file as a text for a message about a fault, without the
// passwords of addresses.
func shown(v *source.Node) string {
	text, err := json.Marshal(v.Plain())
	if err != nil {
		return "no value"
	}
	return source.Clip(dsn.Scrub(string(text)), 80)
}
