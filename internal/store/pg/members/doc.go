// Package members keeps in a database which sidecars share it, and tells who has which partition of
// its store; and in which partition each namespace is.
//
// Owns: the rows of nodes and of namespaces; the renewal of the leases of the partitions that this
// process has. Taking and giving back a partition is pgkv's.
// Keeps: one statement says that a node lives, renews its leases and reads what there is, by the
// database's clock alone, however many partitions there are. A lease is renewed only under the
// epoch that the owner in this process is sure of, so that a partition that no node serves is free
// when its lease has ended; none waits for another one's. No namespace is moved by it. No error has
// a password. Nothing depends on earlier settings of a session.
package members
