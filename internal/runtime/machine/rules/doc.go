// Package rules is the pure heart of Pawl: what one run does with one input.
//
// It owns [Step] and what can be told from a State alone; runtime calls it to decide,
// store to prove. It imports only package machine and knows no clock, no random source,
// no disk and no network. Time and ids arrive inside the Input; what has to be stored
// and sent leaves inside the Batch. The same Graph, State and Input therefore give the
// same Result for ever, which is what replay and verification rest on.
//
//	Step(graph, state, input) -> Result{state', batch, disposition}, error
//
// An error means that nothing changed: no id is used up and nothing is stored.
//
// Three rules hold everything together:
//
//   - A state implies its timers, outbox rows, ready and list index rows
//     ([Timers], [Outbox], [Ready], [Indexes]); a Batch holds the difference
//     between the states before and after, so the two cannot drift apart.
//   - A written artifact value is stored once: with the Transition of its input,
//     else with its Ended, else with the TurnCompleted, ArtifactsSet or
//     StepResolved that brought it.
//   - Budgets come first: what an input brought is recorded, then a run that is
//     over a budget ends, whatever else the input asks for; Cancel alone is a
//     cancellation even then.
package rules
