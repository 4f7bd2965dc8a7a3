// Package model asks models: it turns a request as it is recorded into what an endpoint
// takes, and what it streams into an answer as it is recorded.
//
// It owns the wire formats (OpenAI's chat completions, Anthropic's messages) and the keys;
// streams of events are read by OpenAI's own package. The executor calls it. Invariant: a key is in no
// answer, error or log, and what an endpoint sends is bounded in bytes and in time.
package model
