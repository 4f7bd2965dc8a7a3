// Package preflight examines a PostgreSQL server before a store is kept on it: whether the
// server can be reached, what it loses when it fails, and which program owns its tables.
//
// It owns the questions that a start asks the server, and the conclusions from the answers:
// [Look] asks, [Judge] decides.
//
// Keeps: a setting by which the server can lose an acknowledged commit is refused or reported
// by name, never ignored. No error contains a password.
package preflight
