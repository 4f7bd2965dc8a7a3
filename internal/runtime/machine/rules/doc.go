// Package rules decides what one run does with one input. It is a pure function.
//
// It owns [Step] and everything that can be derived from a State alone. The runtime calls it to decide, the
// store to verify. It imports only package machine and uses no clock, no random source, no disk and no
// network. Time and ids come in the Input; what has to be stored and sent leaves in the Batch. The same
// Graph, State and Input therefore always give the same Result. Replay and verification depend on that.
//
//	Step(graph, state, input) -> Result{state', batch, disposition}, error
//
// An error means that the input had no effect: no id is used and no record is stored.
//
// Three rules apply everywhere:
//
//   - A state implies its timers, outbox rows, ready and list index rows ([Timers], [Outbox], [Ready],
//     [Indexes]). A Batch holds the difference between the rows before and after, so that state and rows
//     cannot diverge.
//   - The value of a written artifact is stored once: with the Transition of its input, else with its
//     Ended, else with the TurnCompleted, ArtifactsSet or StepResolved that contained it.
//   - Budgets come first: the data of an input is recorded, then a run that is over a budget ends,
//     regardless of the command. Only Cancel still ends the run as CANCELLED.
package rules
