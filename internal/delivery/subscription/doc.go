// Package subscription stores which readers receive records, and the position of each reader. Readers
// are named consumers, webhooks, and push configurations of tasks.
//
// Owns: the subscriptions in the store, the locks that serialize the changes of each subscription, and
// the open watch of each consumer.
//
// Guarantees: a position never goes back. A change is checked against the stored subscription at the
// time of the commit, so that a removed subscription does not exist again and a changed one stays
// changed. The number of subscriptions of a kind never exceeds its limit, even if several are created
// at the same time.
package subscription
