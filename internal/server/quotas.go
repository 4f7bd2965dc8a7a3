package server

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
)

// readQuotas reads the quotas of namespaces and principals. served are the namespaces that exist.
func readQuotas(c config.Config, served []string) (*quota.Table, error) {
	table := &quota.Table{}
	if c.QuotasFile == "" {
		return table, nil
	}
	file, err := config.ReadQuotas(c.QuotasFile)
	if err != nil {
		return nil, err
	}
	table.Namespace, table.Principal = bounds(file.Namespace), bounds(file.Principal)
	table.Namespaces, table.Principals = boundsOf(file.Namespaces), boundsOf(file.Principals)
	if err := table.Validate(served); err != nil {
		return nil, fmt.Errorf("quotas file %s: %w", c.QuotasFile, err)
	}
	return table, nil
}

func bounds(from map[string]int64) quota.Bounds {
	to := make(quota.Bounds, len(from))
	for name, n := range from {
		to[quota.Resource(name)] = n
	}
	return to
}

func boundsOf(from map[string]map[string]int64) map[string]quota.Bounds {
	to := make(map[string]quota.Bounds, len(from))
	for name, b := range from {
		to[name] = bounds(b)
	}
	return to
}
