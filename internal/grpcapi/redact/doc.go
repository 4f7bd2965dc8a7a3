// Package redact takes the values that a pack calls sensitive (x_pawl.sensitive) out of
// what is told to callers without the scope values:sensitive.
//
// Owns: what stands in their place. Called by: internal/grpcapi, on messages that were
// converted for one caller. May import: pack, the way's types and the contract. Keeps: what it replaces is
// always marked, and a message that nobody but one caller has is the only one changed.
package redact
