// Package rules decides what one input does to one run. Its main function [Step] is a pure function.
//
// The runtime calls Step to decide, and the store calls it to verify. The package also owns everything that
// can be derived from a State alone. It imports only package machine and uses no clock, no random source,
// no disk and no network. Time and ids come in the Input; everything that has to be stored and sent leaves
// in the Batch. The same Graph, State and Input therefore always give the same Result. Replay and
// verification depend on that.
//
// Step(graph, state, input) -> Result{state', batch, disposition}, error
//
// An error means that the input had no effect: no id is used and no record is stored.
//
// Three rules apply everywhere:
//
//   - A state implies its timers, outbox rows, ready and list index rows ([Timers], [Outbox], [Ready],
//     [Indexes]). A Batch contains the difference between the rows before and after, so that state and
//     rows cannot diverge.
//   - The value of a written artifact is stored once: in the Transition of its input. Without a Transition
//     it is in the Ended or CompensationStarted, otherwise in the TurnCompleted, ArtifactsSet or
//     StepResolved of the input. The Origin of a fork contains the values that the fork copies or changes.
//   - Budgets come first: the data of an input is recorded, then a run that is over a budget ends,
//     regardless of the command. Only Cancel still ends the run as CANCELLED.
package rules
