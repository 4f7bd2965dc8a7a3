// Package subscription is the room of who is told of records, and how far: named
// consumers, webhooks, push configurations of tasks.
//
// Owns: the subscriptions in the store, the turns in which each is changed, and the one
// open watch of each consumer.
// Called by: the edges; the room of watches (watch.Readers); package deliver, which sends
// and tells how far it has come.
// May import: the runtime's types, what lies below the way, the room of watches. The way
// imports it not, and knows nothing of subscriptions.
// Keeps: a place never goes back; a change is judged by what is stored when it is stored,
// so that what was removed does not come back and what was changed stays changed; there
// are never more of a kind than its bound, however many are made at once.
package subscription
