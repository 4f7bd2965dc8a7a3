// Package subscription keeps which readers receive records, and how far each has come: named consumers,
// webhooks, push configurations of tasks.
//
// Owns: the subscriptions in the store, the turns in which each is changed, and the one open watch
// of each consumer.
// Keeps: a place never goes back; a change is judged by what is stored when it is stored, so that
// what was removed does not come back and what was changed stays changed; there are never more of a
// kind than its bound, however many are made at once.
package subscription
