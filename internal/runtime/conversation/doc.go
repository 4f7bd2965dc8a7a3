// Package conversation prepares requests to models. It resolves and checks their references, and
// computes the digests that identify equal requests, however their messages are referred to.
//
// Owns: no data of runs; it reads their history.
//
// Guarantees: a prepared request refers only to records, so it can always be resolved from them.
// The cost depends on the new part of the request, not on the length of the conversation.
package conversation
