// Package delivery sends everything that leaves the process after its commit: delegations to agents and
// their cancellations, push messages about tasks, and events of webhooks.
//
// Owns: the goroutine that sends each item, and the pauses between attempts. The items are in the
// store. The packages delegation and subscription read and update them.
//
// Guarantees: a crash at any point loses no message, because the rows are still in the store. A
// repeated message is equal to the first one, so that the receiver can ignore it. A receiver gets its
// events in order. After the removal of a subscription was answered, no event is sent for it.
package delivery
