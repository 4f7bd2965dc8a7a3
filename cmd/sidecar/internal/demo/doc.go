// Package demo shows the main job of the product with real processes and a crash in the middle.
// [RunRefunds] runs an agent that pays refunds. [RunCodegen] runs the codegen loop of PromptPack RFC
// 0009.
//
// It owns the scenarios with their recorded models and tools. Only the command calls it. The package is a client of the API, and it also
// starts and kills the sidecar. Two rules hold: the crash is a SIGKILL, and everything that the demo prints about a run afterwards is
// read from the run's journal.
package demo
