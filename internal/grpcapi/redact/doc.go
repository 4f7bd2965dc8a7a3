// Package redact takes the values that a pack calls sensitive (x_pawl.sensitive) out of messages to
// callers without the scope values:sensitive.
//
// Owns: what stands in their place.
// Keeps: what it replaces is always marked, and a message that only one caller has is the
// only one changed.
package redact
