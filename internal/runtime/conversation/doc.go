// Package conversation prepares requests to models. It resolves and checks the references in a request
// to earlier messages. It also computes digests that are equal for equal requests, even if the requests
// refer to their messages in different ways.
//
// Owns: no data. It reads the history of runs.
//
// Guarantees: a prepared request refers only to records, so it can always be resolved from them. The cost of a request that continues a
// previous step depends on its new part. Only a request that refers to the conversation, or that must contain a steering message, reads
// the conversation.
package conversation
