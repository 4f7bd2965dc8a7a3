// Package model calls models: it converts a recorded request to the form of an endpoint, and the streamed
// answer to the form that is recorded.
//
// It owns the wire formats (OpenAI's chat completions and Responses, Anthropic's messages; ADR 0091), the normalization of answers (ADR
// 0087) and the keys. OpenAI's own package reads the event streams. The executor calls this package. Invariant: no answer, error or log
// contains a key, and what an endpoint sends is bounded in bytes and in time.
package model
