// Package client calls the agents of others, and those of this sidecar, over A2A: a [Directory]
// knows which agent lives where, a [Peer] sends it messages and follows its tasks.
//
// It owns the way out: cards, hosts that are allowed, credentials, what an error means for a
// delegation.
// Invariant: nothing in a pack, a card or a model's output adds a host, and only what certainly did
// nothing is sent again.
package client
