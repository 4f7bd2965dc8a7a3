// Package dialogue measures calls of models: what one costs, whether late ones in a turn cost
// more, and what is stored of what was said.
//
// Owns: the turn that is spoken, and what of it counts. Called by: the bench. May import: the
// contract and latency.
// Keeps: nothing is asked of a model; the words are random, so that no compression helps.
package dialogue
