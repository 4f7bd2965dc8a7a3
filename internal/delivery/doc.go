// Package delivery is the room of everything that leaves the process after its commit: delegations
// to agents and the word that one is no longer wanted, pushes of tasks, events of webhooks.
//
// Owns: who sends what right now, and the pauses between tries. What there is to send stands in the
// store; the rooms delegation and subscription read and keep it.
// Keeps: a crash at any point loses nothing, since the rows are found again, and a message that is
// sent again is the same message, which its receiver takes once; events reach a receiver in order,
// and none is sent once a removal was answered.
package delivery
