// Package preflight examines a PostgreSQL server before a store uses it: whether the server can be
// reached, which data it can lose when it fails, and which program owns its tables.
//
// Owns: the queries that are sent to the server at a start ([Inspect]), and the conclusions from the
// answers ([Judge]).
//
// Guarantees: if the server can lose an acknowledged commit because of a setting, the setting is
// refused or reported by name, and never ignored. No error contains a password.
package preflight
