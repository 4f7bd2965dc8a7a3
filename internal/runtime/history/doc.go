// Package history reads the past of a run: its records, its earlier states, its artifacts and its
// conversations.
//
// Owns: replay from the last checkpoint, and caches of the segments of long artifacts and of the
// variables of runs.
//
// Guarantees: the past is immutable, so the same question always has the same answer. The cost of an answer does not grow with the length
// of the journal, except for [Reader.FindStep] of a step of an earlier visit.
package history
