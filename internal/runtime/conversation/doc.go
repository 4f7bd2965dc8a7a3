// Package conversation prepares requests to models. It resolves and checks the references in a request.
// It also computes digests that are equal for equal requests, even if the requests refer to their
// messages in different ways.
//
// Owns: no data of runs; it reads their history.
//
// Guarantees: a prepared request refers only to records, so it can always be resolved from them. The
// cost depends on the new part of the request, not on the length of the conversation.
package conversation
