package server

import (
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// readPrices reads the operator's prices of models. A price applies if the pack does not price the
// model.
func readPrices(c config.Config) (map[string]machine.Price, error) {
	if c.Prices == "" {
		return nil, nil
	}
	file, err := config.ReadPrices(c.Prices)
	if err != nil {
		return nil, err
	}
	prices := make(map[string]machine.Price, len(file))
	for model, p := range file {
		prices[model] = machine.PriceUSD(p.Input, p.Cached, p.Output, p.Reasoning)
	}
	return prices, nil
}
