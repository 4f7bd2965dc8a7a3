// Package auditlog writes the audit lines about calls that changed state and calls that were
// refused.
//
// It owns the contents of a line: caller, subject, outcome and origin; never a payload.
// Invariants: the line about a change is written before the change is answered. While lines cannot be
// written, calls that change state are refused. Unauthenticated callers cannot fill the disk with
// lines about themselves.
package auditlog
