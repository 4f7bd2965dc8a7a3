// Package convert turns requests of pawl.v1 into what the engine is asked, and what it answers into
// responses: the one place where protobuf and the engine's types meet.
//
// It owns forms and no decisions: nothing here asks the engine, knows a context or keeps anything.
// Invariant: the constraints of the proto files hold before it is called; what they cannot say is a
// typed refusal that names the field.
package convert
