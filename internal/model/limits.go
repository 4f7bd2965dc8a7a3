package model

import (
	"net/http"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// limitHeaders are the headers with the remaining amount of a limit and its reset time. The first names are OpenAI's, which most
// endpoints use; the second are Anthropic's.
var limitHeaders = []struct{ requests, requestsReset, tokens, tokensReset string }{
	{"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
	{"Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset", "Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"},
}

// limitsOf returns the rate limits that a provider reports in the headers of a response; nil = none.
func limitsOf(header http.Header, now time.Time) *pawlv1.ProviderLimits {
	for _, names := range limitHeaders {
		out := &pawlv1.ProviderLimits{}
		out.Requests, out.RequestsReset = leftOf(header, names.requests, names.requestsReset, now)
		out.Tokens, out.TokensReset = leftOf(header, names.tokens, names.tokensReset, now)
		if out.Requests != nil || out.Tokens != nil {
			return out
		}
	}
	return nil
}

// leftOf reads one limit. An invalid header is ignored.
func leftOf(header http.Header, left, reset string, now time.Time) (*int64, *durationpb.Duration) {
	n, err := strconv.ParseInt(header.Get(left), 10, 64)
	if err != nil || n < 0 {
		return nil, nil
	}
	after, ok := resetAfter(header.Get(reset), now)
	if !ok {
		return nil, nil
	}
	return &n, durationpb.New(after)
}

// resetAfter reads the time until a reset, as RFC 3339, as "6m0s" or in seconds.
func resetAfter(text string, now time.Time) (time.Duration, bool) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return wait(float64(at.Sub(now))), true
	}
	if d, err := time.ParseDuration(text); err == nil {
		return wait(float64(d)), true
	}
	s, err := strconv.ParseFloat(text, 64)
	return wait(s * float64(time.Second)), err == nil
}
