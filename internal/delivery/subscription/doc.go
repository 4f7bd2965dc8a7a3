// Package subscription stores which readers receive records, and how far each has come: named consumers,
// webhooks, and push configurations of tasks.
//
// Owns: the subscriptions in the store, the locks that serialize the changes of each, and the one open watch
// of each consumer.
// Keeps: a position never goes back. A change is checked against the stored subscription at the time of the
// commit, so that a removed one does not come back and a changed one stays changed. There are never more
// subscriptions of a kind than its limit, even if several are made at the same time.
package subscription
