package ratelimit

import (
	"time"

	"github.com/pawl-dev/pawl/internal/expr"
)

// Limit is one entry of the operator's table.
type Limit struct {
	// ID is the entry's name, unique in the table.
	ID string
	// Key names what is counted together; "" = the entry is not about the call.
	Key *expr.Program
	// Source is the text of Key.
	Source string
	// Concurrent, PerMinute and TokensPerMinute bound calls that are open at once, that begin
	// in a minute, and what they may consume in one; 0 = no bound.
	Concurrent, PerMinute, TokensPerMinute int64
	// Weights of tenants; 1 for those that are not in it.
	Weights map[string]int64
	// TrackProvider: what providers tell of their own limits moves those of the entry.
	TrackProvider bool
}

// Table is what is in force. It does not change.
type Table struct {
	// Tenant is the label whose value is a run's tenant.
	Tenant string
	Limits []*Limit
}

// Language is what keys are written in: CEL over the call.
func Language() (*expr.Language, error) {
	return expr.Of([]string{"labels"}, []string{"model", "tool", "namespace", "pack"})
}

// Call is what an expression sees of a call of a model or a tool; the other is "".
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

// unknownKey counts calls together of which an expression cannot say what they are: they are
// limited, not let through.
const unknownKey = "?"

// key is what a call is counted with; "" = with nothing.
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

// ProviderLimits is what a provider told of its limits with an answer. A nil figure was not told.
type ProviderLimits struct {
	// Requests and Tokens are what is left of them; the durations say until when.
	Requests, Tokens           *int64
	RequestsReset, TokensReset time.Duration
	// Wait is how long it asks to send nothing more.
	Wait time.Duration
}
