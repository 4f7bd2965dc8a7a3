// Package model asks models: it turns a request as it is recorded into what an endpoint
// takes, and what it streams into an answer as it is recorded.
//
// It owns the wire formats (OpenAI's chat completions and Responses, Anthropic's messages; ADR 0091),
// what is normal of an answer (ADR 0087) and the keys; streams of events are read by OpenAI's own
// package. The executor calls it. Invariant: a key is in no
// answer, error or log, and what an endpoint sends is bounded in bytes and in time.
package model
