// Package auditlog tells the audit which calls changed something and which were refused.
//
// It owns what of a call a line has: who, what about, what came of it, from where; never a payload.
// Invariants: what changed something has its line before it is answered; while no line can be
// written nothing that changes something is done; unknown callers cannot fill the disk
// with lines about themselves.
package auditlog
