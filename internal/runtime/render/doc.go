// Package render renders a turn for its executor: the prompt with its variables and artifacts, the
// conversation, tools, events, and the remaining budgets. It also defines the pieces of output that
// the executor sends during the turn.
//
// Owns: no data of runs; it reads their history and the pack.
//
// Guarantees: the same state renders the same turn, except for the remaining time.
package render
