// Package client calls agents over A2A, including the agents of this sidecar. A [Directory] knows the
// address of each agent. A [Peer] sends messages to an agent and follows its tasks.
//
// Owns: outgoing calls, that is, cards, allowed hosts, credentials, and the meaning of an error for a
// delegation.
//
// Guarantees: packs, cards and model outputs cannot add a host. An error says whether its message
// certainly had no effect, so that the caller can decide whether to send it again.
package client
