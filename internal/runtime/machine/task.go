package machine

// Task is the A2A task of a run that began with a message to an agent. The task's id is the run's id.
type Task struct {
	// ContextID groups the tasks of one conversation.
	ContextID string
	// Owner is the principal that sent the message.
	Owner string
	// Tenant is the route by which the message arrived. "" means the root.
	Tenant string
}

// Envelope is the data of a message to an agent, without its parts.
type Envelope struct {
	// MessageID is the id that the sender gave to the message.
	MessageID string
	ContextID string
	// References are the ids of tasks that the message refers to.
	References []string
	// Extensions are the extension URIs named in the message.
	Extensions []string
	// Metadata is a compact JSON object or empty.
	Metadata []byte
}

// Awaiting is the kind of input from outside that a WAITING run waits for.
type Awaiting uint8

const (
	AwaitNothing Awaiting = iota
	// AwaitInput means that the run waits for message parts, or for an event in an external state.
	AwaitInput
	// AwaitAuth means that the run waits for an authorisation, which happens outside Pawl, and then for
	// an input.
	AwaitAuth
)
