package machine

// Task is the A2A task of a run that began with a message to an agent. The task's id is the run's id.
type Task struct {
	// ContextID groups the tasks of one conversation.
	ContextID string
	// Owner is the principal that sent the message.
	Owner string
	// Tenant is the route by which the message came; "" = the root.
	Tenant string
}

// Envelope is the data of an inbound message besides its parts.
type Envelope struct {
	// MessageID is the sender's id of the message.
	MessageID string
	ContextID string
	// References are ids of tasks that the message is about.
	References []string
	// Extensions are the extension URIs named in the message.
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
	// AwaitAuth: an authorisation that is given outside Pawl, then an input.
	AwaitAuth
)
