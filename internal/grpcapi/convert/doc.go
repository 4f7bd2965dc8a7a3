// Package convert converts requests of pawl.v1 to calls of the engine, and answers of the engine to responses. The
// services themselves convert only simple requests and responses.
//
// Owns: no decisions. The package does not call the engine, uses no context and keeps no state.
//
// Guarantees: all faults that the constraints of the proto files cannot express are typed errors that
// name the field. The constraints must be checked before a conversion.
package convert
