// Package membership is one sidecar's part in a cluster, in which each partition of the store
// has one owner: it sends heartbeats, reads which nodes are alive, takes over free partitions,
// gives away partitions above its share, and hands over all of them when it leaves.
//
// Owns: the loop; for each partition, whether it is being opened or handed over, and until when
// its lease certainly holds; the known owner of each partition, which the router reads; the
// peers of the cluster, which their port reads; and the placement. Keeps: this process opens a
// partition again only after its earlier ownership of it is closed. Calls enter a partition
// only while its lease certainly holds, however long the process was stopped. Membership does
// not prevent two nodes from writing to a partition: the store's fence does.
package membership
