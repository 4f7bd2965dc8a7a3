// Package demo runs the product's main job end to end: RFC 0009's codegen loop
// on a real sidecar process, with a crash in the middle.
//
// It owns the story, its scripted model and the module that the model writes. Only
// the command calls it; it is a client of the contract that also starts and kills
// the process. Invariant: the crash is a SIGKILL, and what is said of the run
// afterwards is read from its journal.
package demo
