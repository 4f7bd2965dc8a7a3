// Package render renders a turn for its executor. The result contains the prompt with its variables and
// artifacts, the conversation, tools, events, and the remaining budgets. The package also defines the
// pieces of output that the executor sends during the turn.
//
// Owns: no data of runs; it reads their history and the pack.
//
// Guarantees: the same state always renders the same turn, except for the remaining time.
package render
