// Package preflight examines a PostgreSQL server before a store is kept on it: whether the
// server can be reached, what it loses when it fails, and which program owns its tables.
//
// It owns the queries that a start sends to the server ([Look]), and the conclusions from the
// answers ([Judge]).
//
// Invariant: a setting with which the server can lose an acknowledged commit is refused or reported
// by name, and never ignored. No error contains a password.
package preflight
