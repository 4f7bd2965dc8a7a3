// Package render shows a turn to its executor: the prompt with its variables and artifacts, the
// conversation, tools, events and what is left of each budget; and names the pieces of output that
// it writes meanwhile.
//
// Owns: nothing of a run; it reads what was and what the pack says.
// Keeps: the same state renders the same, but for what is left of the time.
package render
