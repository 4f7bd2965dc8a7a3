package ratelimit

import (
	"time"

	"github.com/pawl-dev/pawl/internal/expr"
)

// Limit is one entry of the operator's table.
type Limit struct {
	// ID is the name of the entry, unique in the table.
	ID string
	// Key computes the key that calls are counted by; "" = the entry does not apply to the call.
	Key *expr.Program
	// Source is the text of Key.
	Source string
	// Concurrent bounds the active calls; PerMinute, the calls that begin in a minute;
	// TokensPerMinute, the tokens of a minute. 0 = no bound.
	Concurrent, PerMinute, TokensPerMinute int64
	// Weights are the weights of tenants; 1 for tenants that are not listed.
	Weights map[string]int64
	// TrackProvider reports whether limits that providers report adjust this entry.
	TrackProvider bool
}

// Table is the set of limits. It is immutable.
type Table struct {
	// Tenant is the label with a run's tenant.
	Tenant string
	Limits []*Limit
}

// Language returns the language of keys: CEL over the call.
func Language() (*expr.Language, error) {
	return expr.Of([]string{"labels"}, []string{"model", "tool", "namespace", "pack"})
}

// Call is the data of a model call or a tool call that expressions use. Either Model or Tool is "".
type Call struct {
	Model, Tool     string
	Namespace, Pack string
	Labels          map[string]string
}

func (c *Call) vars() map[string]any {
	labels := make(map[string]any, len(c.Labels))
	for name, value := range c.Labels {
		labels[name] = value
	}
	return map[string]any{"model": c.Model, "tool": c.Tool, "namespace": c.Namespace, "pack": c.Pack, "labels": labels}
}

// unknownKey is the key of calls for which the expression fails. They are limited together instead
// of being unlimited.
const unknownKey = "?"

// key returns the key of a call; "" = the limit does not apply.
func (l *Limit) key(vars map[string]any) string {
	key, err := l.Key.Text(vars)
	if err != nil {
		return unknownKey
	}
	return key
}

func (l *Limit) weight(tenant string) float64 {
	if w := l.Weights[tenant]; w > 0 {
		return float64(w)
	}
	return 1
}

// ProviderLimits are limits that a provider reported with an answer. A nil field was not reported.
type ProviderLimits struct {
	// Requests and Tokens are how many are left; the durations are the time until their reset.
	Requests, Tokens           *int64
	RequestsReset, TokensReset time.Duration
	// Wait is how long the provider asks not to send calls.
	Wait time.Duration
}
