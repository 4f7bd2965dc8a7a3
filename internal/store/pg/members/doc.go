// Package members stores the membership of a cluster in a database: which sidecars share the store,
// which of them owns which partition, and in which partition each namespace is.
//
// It owns the rows of nodes and of namespaces, and the renewal of the leases of the partitions that
// this process owns. internal/store/pg takes over partitions and releases them.
//
// Invariants:
//
//   - One statement reports that the node lives, renews its leases and reads the current state. It
//     uses the database's clock alone, and stays one statement however many partitions there are.
//   - The node renews a lease only under the epoch that the owner in this process is sure of. So a
//     partition that no process serves is free when its lease has ended. No partition waits for the
//     lease of another one.
//   - The package never moves a namespace that has a partition.
//   - No error contains a password.
//   - No statement depends on what was set in a session before.
//
// Concurrency: [Membership] is safe for concurrent use.
package members
