package machine

// Task is what a run that began with a message to an agent is to whoever sent
// it: an A2A task, whose id is the run's.
type Task struct {
	// ContextID groups the tasks of one conversation.
	ContextID string
	// Owner is the principal that sent the message.
	Owner string
	// Tenant is the route that the message came by; "" = the root.
	Tenant string
}

// Envelope is what an inbound message says besides its parts.
type Envelope struct {
	// MessageID is the sender's.
	MessageID string
	ContextID string
	// References are ids of tasks that the message is about.
	References []string
	// Extensions are the URIs that the message claims.
	Extensions []string
	// Metadata is a compact JSON object or empty.
	Metadata []byte
}

// Awaiting is what a WAITING run waits for from outside.
type Awaiting uint8

const (
	AwaitNothing Awaiting = iota
	// AwaitInput: parts, or an event of an external state.
	AwaitInput
	// AwaitAuth: an authorisation that is given elsewhere, then an input.
	AwaitAuth
)
