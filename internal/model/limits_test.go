package model

import (
	"net/http"
	"testing"
	"time"
)

// TestLimitsOf: what providers tell is read in both forms; what cannot be read is not guessed.
func TestLimitsOf(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		header           map[string]string
		requests, tokens int64
		after            time.Duration
	}{
		"openai": {map[string]string{
			"x-ratelimit-remaining-requests": "59", "x-ratelimit-reset-requests": "1s",
			"x-ratelimit-remaining-tokens": "149984", "x-ratelimit-reset-tokens": "6m0s",
		}, 59, 149984, 6 * time.Minute},
		"anthropic": {map[string]string{
			"anthropic-ratelimit-requests-remaining": "3", "anthropic-ratelimit-requests-reset": "2026-05-01T12:00:30Z",
			"anthropic-ratelimit-tokens-remaining": "1000", "anthropic-ratelimit-tokens-reset": "2026-05-01T12:00:10Z",
		}, 3, 1000, 10 * time.Second},
		"seconds":    {map[string]string{"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "2.5"}, -1, 5, 2500 * time.Millisecond},
		"over":       {map[string]string{"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "-3"}, -1, 5, 0},
		"no reset":   {map[string]string{"x-ratelimit-remaining-tokens": "5"}, -1, -1, 0},
		"no number":  {map[string]string{"x-ratelimit-remaining-tokens": "many", "x-ratelimit-reset-tokens": "1s"}, -1, -1, 0},
		"below zero": {map[string]string{"x-ratelimit-remaining-tokens": "-1", "x-ratelimit-reset-tokens": "1s"}, -1, -1, 0},
		"no time":    {map[string]string{"x-ratelimit-remaining-tokens": "1", "x-ratelimit-reset-tokens": "soon"}, -1, -1, 0},
		"none":       {nil, -1, -1, 0},
	} {
		header := http.Header{}
		for name, value := range c.header {
			header.Set(name, value)
		}
		got := limitsOf(header, now)
		if c.requests < 0 && c.tokens < 0 {
			if got != nil {
				t.Errorf("%s: %v", name, got)
			}
			continue
		}
		if got == nil || got.GetTokens() != c.tokens || got.GetTokensReset().AsDuration() != c.after || (c.requests >= 0) != (got.GetRequests() > 0) || c.requests > 0 && got.GetRequests() != c.requests {
			t.Errorf("%s: %v", name, got)
		}
	}
}
