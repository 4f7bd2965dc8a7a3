// Package delivery sends everything that leaves the process after its commit: delegations to
// agents and their cancellations, pushes of tasks, events of webhooks.
//
// Owns: the goroutine that sends each item, and the pauses between tries. The store holds the
// items; the packages delegation and subscription read and update them. Keeps: a crash at any
// point loses no message, since the rows are found again. A repeated message is the same
// message, so that its receiver can ignore it. Events reach a receiver in order, and none is
// sent after the answer to a removal.
package delivery
