package model

import (
	"encoding/json"
	"testing"
)

// TestMaxTokens: the bound of an answer is a whole number, in any spelling.
func TestMaxTokens(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]int64{
		"": 0, "100": 100, "1e2": 100, "100.0": 100, "1": 1, "1000000000000": 1_000_000_000_000,
		`"100"`: -1, "0": -1, "-1": -1, "1.5": -1, "true": -1, "{}": -1, "1e13": -1, "1e999": -1,
	} {
		parameters := map[string]json.RawMessage{}
		if value != "" {
			parameters["max_tokens"] = json.RawMessage(value)
		}
		got, err := (&Endpoint{Name: "gpt"}).MaxTokens(parameters)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%s: %d, %v; want %d", value, got, err, want)
		}
	}
}

// TestLimitName: a request to OpenAI's own endpoint has the newer name of the bound. Requests to all others
// have the older name.
func TestLimitName(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"gpt=https://api.openai.com/v1": chatLimitOfOpenAI, "gpt=https://eu.api.openai.com/v1": chatLimitOfOpenAI,
		"gpt=https://api.openai.com.example.org/v1": chatLimit, "gpt=http://127.0.0.1:1/v1": chatLimit,
	} {
		e, err := ParseEndpoint(address)
		if err != nil || e.limitName() != want {
			t.Errorf("%s: %s, %v", address, e.limitName(), err)
		}
	}
}
