// Package cluster measures sidecars that share a database, each of which has a part of the store.
//
// Owns: how long callers at other nodes stand still when the owner ends or is killed, what a call
// through another node costs beside one at the owner, how late a stream there is, throughput with
// calls at one owner, at all nodes and at an owner for each namespace, how soon a new node has its
// share, these figures and their bars.
// Keeps: a call that fails, or leads elsewhere than its event does, ends the measurement; every
// node that was ended is there again, with its share, before the next one is.
package cluster
