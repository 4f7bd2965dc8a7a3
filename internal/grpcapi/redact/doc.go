// Package redact replaces the values that a pack calls sensitive (x_pawl.sensitive) in messages to
// callers without the scope values:sensitive.
//
// Owns: the marks that replace values.
// Keeps: a replaced value always has a mark. A message that several callers share is not changed; only
// the copy for one caller is.
package redact
