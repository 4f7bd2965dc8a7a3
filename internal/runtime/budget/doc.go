// Package budget counts what runs reserve and settle in the operator's accounts, over all runs of a
// namespace that have a label, in windows of time.
//
// Owns: the table of accounts in force, the arithmetic of their windows, and in memory what is
// reserved and settled of each; the store has the same in rows.
// Keeps: no account is over its limit by what was reserved, however many runs ask at once: an input
// is counted before its commit, in all of its accounts or in none. What it changes is read off the
// run's states before and after, so that nothing has to be given back. A nil [Ledger]
// counts nothing.
package budget
