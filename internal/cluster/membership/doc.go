// Package membership is one sidecar of a cluster, in which each partition of the store has one
// owner: it says that it lives, sees who else does, takes partitions that are free, gives away what
// is more than its share, and hands all over when it leaves.
//
// Owns: the loop; of each partition whether it is opened or handed over right now, and until when
// its lease holds for certain; what is known of who has which, which the router asks, and which
// peers are of the cluster, which their port asks; who is to have which.
// Keeps: of this process one tenure of a partition at a time is open, and none is begun before the
// one before it is closed. Calls enter it no longer than its lease holds for certain, however long
// the process was stopped. That two nodes never write to a partition is not its doing: the store's
// fence is.
package membership
