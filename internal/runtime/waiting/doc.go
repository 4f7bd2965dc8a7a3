// Package waiting says what a run waits for.
//
// Owns: the rules that choose, from everything that a run waits for, the one thing that has to happen
// first; and the sentence that describes it to a person.
//
// Guarantees: the answer is computed on request from the state of the run, the work that the
// dispatcher has in memory and the operator's limits. It is never stored. Computing it changes
// nothing.
package waiting
