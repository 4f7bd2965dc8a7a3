// Package budget counts what runs reserve and consume in the operator's accounts. An account is a
// budget over all runs of a namespace that have a certain label, in a window of time.
//
// Owns: the current table of accounts and the operator's prices of models; the computation of the
// windows; the reserved and consumed amounts of each account in memory. The store has the same amounts
// in rows.
//
// Guarantees: reservations never exceed the limit of an account, even if many runs reserve at the same
// time. An input is counted before its commit, either in all of its accounts or in none. The changes of
// an input are computed from the states of the run before and after the input, so no release can be
// forgotten. A nil [Ledger] is valid and does not count.
package budget
