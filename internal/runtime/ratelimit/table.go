package ratelimit

import (
	"time"

	"github.com/pawl-dev/pawl/internal/expr"
)

// Limit is one entry of the operator's table of limits.
type Limit struct {
	// ID is the name of the limit. It is unique in the table.
	ID string
	// Key computes, from the data of a call, the key under which the limit counts the call. If the
	// result is "", the limit does not apply to the call.
	Key *expr.Program
	// Source is the text of Key.
	Source string
	// Concurrent bounds the number of calls in progress. PerMinute bounds the calls that begin in a
	// minute, and TokensPerMinute their tokens. 0 means that there is no bound.
	Concurrent, PerMinute, TokensPerMinute int64
	// Weights are the weights of tenants. A tenant that is not listed has the weight 1. A tenant with a
	// higher weight may begin more calls.
	Weights map[string]int64
	// TrackProvider means that the limit also follows the limits that providers report.
	TrackProvider bool
}

// Table is the operator's set of limits. It is immutable.
type Table struct {
	// Tenant is the key of the run label that contains the tenant of the run.
	Tenant string
	Limits []*Limit
}

// Language returns the language of the key expressions: CEL with the data of a call as variables.
func Language() (*expr.Language, error) {
	return expr.NewLanguage([]string{"labels"}, []string{"model", "tool", "namespace", "pack"})
}

// Call is the data of a model call or a tool call that key expressions can use. Either Model or Tool is
// "".
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

// unknownKey is the key of all calls for which the key expression fails. So these calls are limited
// together.
const unknownKey = "?"

// key returns the key under which the limit counts a call. "" means that the limit does not apply.
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

// ProviderLimits are the limits that a provider reported with an answer. A field is nil if it was not
// reported.
type ProviderLimits struct {
	// Requests and Tokens are the numbers of requests and tokens that are left. RequestsReset and
	// TokensReset are the times until the provider resets them.
	Requests, Tokens           *int64
	RequestsReset, TokensReset time.Duration
	// Wait is the pause before further calls that the provider has asked for.
	Wait time.Duration
}
