// Package endpoint is an endpoint of models by script, for tests: it speaks OpenAI's chat
// completions and Anthropic's messages, streamed, on a port of its own, and remembers what
// it was asked.
package endpoint
