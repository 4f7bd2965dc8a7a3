// Package pause is how long is waited between attempts.
//
// Owns: the defaults of pauses.
// Called by: package rules.
// May import: machine.
// Keeps: a pause follows from policy, run, turn or step, and attempt, so that a replay finds
// the same one.
package pause
