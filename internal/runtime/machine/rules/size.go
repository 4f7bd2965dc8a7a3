package rules

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// PartsBytes returns the number of bytes that parts add to the run's messages.
func PartsBytes(parts []machine.Part) int64 {
	var n int
	for i := range parts {
		p := &parts[i]
		n += len(p.Text) + len(p.Data) + len(p.MediaType) + len(p.Filename) + len(p.Metadata)
	}
	return int64(n)
}

// MessagesBytes returns the size of messages in bytes. It includes a model's own exchange with tools.
func MessagesBytes(messages []machine.Message) int64 {
	var n int64
	for i := range messages {
		m := &messages[i]
		n += PartsBytes(m.Parts) + int64(len(m.ToolCalls)+len(m.ToolCallID)+len(m.Provider)+len(m.Refusal)) + EnvelopeBytes(m.Envelope)
	}
	return n
}

// EnvelopeBytes returns the number of bytes that an envelope adds to the run's messages.
func EnvelopeBytes(e *machine.Envelope) int64 {
	if e == nil {
		return 0
	}
	n := len(e.MessageID) + len(e.ContextID) + len(e.Metadata)
	for _, s := range e.References {
		n += len(s)
	}
	for _, s := range e.Extensions {
		n += len(s)
	}
	return int64(n)
}
