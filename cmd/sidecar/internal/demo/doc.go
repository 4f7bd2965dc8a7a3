// Package demo shows the product's main job on real processes, with a crash in the middle:
// [RunRefunds] an agent that moves money, [Run] the codegen loop of RFC 0009.
//
// It owns the stories, their recorded models and their tools. Only the command calls it; it is a
// client of the contract that also starts and kills the process. Invariant: the crash is a
// SIGKILL, and what the demo says of a run afterwards is read from the run's journal.
package demo
