// Package client calls other agents, and those of this sidecar, over A2A: a [Directory] knows
// the address of each agent, a [Peer] sends it messages and follows its tasks.
//
// It owns outgoing calls: cards, allowed hosts, credentials, and the meaning of an error for a
// delegation. Invariant: packs, cards and model outputs cannot add a host, and a message is
// sent again only if it certainly had no effect.
package client
