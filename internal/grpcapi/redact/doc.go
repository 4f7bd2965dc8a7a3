// Package redact replaces the values that a pack declares as sensitive (x_pawl.sensitive) in messages
// to callers that do not have the scope values:sensitive.
//
// Owns: the marks that replace values.
//
// Guarantees: a mark stands in the place of every replaced value. Digests of these values are removed. A message that
// several callers share is not changed. Only a copy for one caller is changed.
package redact
