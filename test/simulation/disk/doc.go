// Package disk is the disk of a simulated machine: directories in memory, each with files and one
// database.
//
// After a crash, what was synced is there, and by chance some of what was not. The store reaches
// the disk through test/simulation/badger and test/simulation/hostos. The simulator crashes the
// disk, fills it and makes it slow.
//
// Invariant: a process from before a crash changes nothing after it, because its handles belong to
// an earlier life of the disk.
//
// Concurrency: a [Disk] is safe for concurrent use.
package disk
