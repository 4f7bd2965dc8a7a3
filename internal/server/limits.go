package server

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/expr"
	"github.com/pawl-dev/pawl/internal/runtime/ratelimit"
)

// readLimits reads the operator's limits for calls of models and tools. Without a file there are none.
func readLimits(c config.Config) (*ratelimit.Table, error) {
	table := &ratelimit.Table{}
	if c.CallLimits == "" {
		return table, nil
	}
	file, err := config.ReadCallLimits(c.CallLimits)
	if err != nil {
		return nil, err
	}
	language, err := ratelimit.Language()
	if err != nil {
		return nil, err
	}
	table.Tenant = file.Tenant
	var faults []error
	for i := range file.List {
		e := &file.List[i]
		key, err := language.Compile(e.Key, expr.Text)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w; an expression gives a text of model, tool, labels, namespace, pack", e.At, err))
			continue
		}
		table.Limits = append(table.Limits, &ratelimit.Limit{
			ID: e.ID, Key: key, Source: e.Key, Concurrent: e.Concurrent, PerMinute: e.PerMinute, TokensPerMinute: e.TokensPerMinute,
			Weights: e.Weights, TrackProvider: e.Provider,
		})
	}
	return table, errors.Join(faults...)
}
