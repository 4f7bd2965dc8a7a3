// Package preflight looks at a PostgreSQL server before a store is entrusted to it: whether it can
// be reached, what it loses when it fails, and whose tables it has.
//
// Owns: the questions that are asked at a start, and what follows from the answers.
// Keeps: what may lose what was acknowledged is refused or said by name, never passed over; no
// error has a password.
package preflight
