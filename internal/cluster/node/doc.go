// Package node is one sidecar of a cluster, of which one has the store: it says that it lives,
// sees who else does, takes the store when it is free and hands it over when it leaves.
//
// Owns: the loop; whether the store is opened or handed over right now; until when its lease
// holds for certain; what is known of who has it, which the router asks, and which peers are of
// the cluster, which their port asks.
// Called by: the wiring. May import: route.
// Keeps: of this process one tenure at a time is open, and none is begun before the one before
// it is closed. Calls enter it no longer than its lease holds for certain, however long the
// process was stopped. That two nodes never write to the store is not its doing: the store's
// fence is.
package node
