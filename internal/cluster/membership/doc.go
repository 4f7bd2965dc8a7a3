// Package membership makes a sidecar a node of a cluster. In the cluster, each partition of the store
// has one owner. The package sends heartbeats, reads which nodes are alive, takes over free partitions,
// gives partitions above its share to other nodes, and hands over all partitions when the node leaves.
//
// Owns: the loop that polls the database; for each partition, whether it is being opened or handed
// over, and until when its lease is certainly valid; the known owner of each partition, which the
// router reads; the live nodes of the cluster, whose calls the port for nodes accepts; and the
// placement of partitions.
//
// Guarantees: this process opens a partition again only after its earlier ownership of it was closed.
// Calls reach a partition only while its lease is certainly valid, even if the process was suspended
// for a long time. The package does not prevent two nodes from writing to a partition. Fencing in the
// store does this: it refuses commits of an earlier owner.
package membership
