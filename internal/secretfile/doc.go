// Package secretfile reads files that rights hang on: bearer tokens, private keys, lists
// of who may do what. It refuses those that others than their owner could have
// written, or, where the content is secret, could have read.
//
// The edges and app call it; it imports nothing of ours. Invariant: what is judged is
// the file that is read, through one descriptor, and no content enters an error.
package secretfile
