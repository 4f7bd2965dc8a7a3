// Package demo shows the product's main job on real processes, with a crash in the middle:
// [RunRefunds] an agent that moves money, [Run] the codegen loop of RFC 0009.
//
// It owns the scenarios with their recorded models and tools. Only the command calls it. It is a client
// of the API that also starts and kills the sidecar. Two rules hold: the crash is a SIGKILL, and
// everything that the demo prints about a run afterwards is read from the run's journal.
package demo
