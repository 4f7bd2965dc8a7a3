// Package auditlog writes the audit lines about calls that changed state and calls that were refused.
//
// Owns: the contents of a line, which are the caller, the subject, the outcome and the origin, but
// never a payload.
//
// Guarantees: the line about a change is written before the change is answered. If lines cannot be
// written, calls that change state are refused. Unauthenticated callers cannot fill the disk with lines
// about themselves.
package auditlog
