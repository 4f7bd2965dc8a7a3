// Package convert turns requests of pawl.v1 into calls of the engine, and its answers into
// responses: the one place where protobuf and the engine's types meet.
//
// It owns forms and no decisions: it does not call the engine, uses no context and keeps no
// state. Invariant: the constraints of the proto files were checked before it is called; all
// other faults are a typed refusal that names the field.
package convert
