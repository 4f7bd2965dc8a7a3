// Package auditlog writes the audit lines about calls that changed state and calls that were
// refused.
//
// It owns the contents of a line: caller, subject, outcome and origin; never a payload.
// Invariants: a change has its line before it is answered; while lines cannot be written, calls
// that change state are refused; unauthenticated callers cannot fill the disk with lines about
// themselves.
package auditlog
