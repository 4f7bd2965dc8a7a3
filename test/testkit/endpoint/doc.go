// Package endpoint is a model endpoint that answers by script, for tests.
//
// It speaks OpenAI's chat completions and Anthropic's messages, streamed, on a port of its own. It
// remembers the requests that it got.
package endpoint
