// Package dialogue measures calls of models: what one costs, whether late ones in a turn cost more,
// what is stored of what was said, and how soon a worker learns that its run was stopped.
//
// Owns: the turn that is spoken, and what of it counts.
// Keeps: nothing is asked of a model; the words are random, so that no compression helps.
package dialogue
