package ratelimit

import (
	"time"

	"github.com/pawl-dev/pawl/internal/expr"
)

// Limit is one entry of the operator's table.
type Limit struct {
	// ID is the name of the entry, unique in the table.
	ID string
	// Key computes the key by which calls are counted. If the result is "", the entry does not apply to
	// the call.
	Key *expr.Program
	// Source is the text of Key.
	Source string
	// Concurrent bounds the number of active calls. PerMinute bounds the calls that begin in a minute.
	// TokensPerMinute bounds the tokens of a minute. 0 means that there is no bound.
	Concurrent, PerMinute, TokensPerMinute int64
	// Weights are the weights of tenants. A tenant that is not listed has the weight 1.
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

// Language returns the language of the key expressions. It is CEL with the data of a call as variables.
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

// unknownKey is the key of calls for which the expression fails. These calls are limited together, so
// that they are not unlimited.
const unknownKey = "?"

// key returns the key of a call. "" means that the limit does not apply.
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
	// Requests and Tokens are the numbers of requests and tokens that are left. The durations are the
	// times until these numbers are reset.
	Requests, Tokens           *int64
	RequestsReset, TokensReset time.Duration
	// Wait is the time in which the provider requests that no calls be sent.
	Wait time.Duration
}
