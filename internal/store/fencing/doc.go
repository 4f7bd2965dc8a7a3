// Package fencing implements commits under an epoch: it decides which process owns a partition of a
// database, and what became of a commit whose answer never came.
//
// It owns the takeover of a partition, its lease, the number of the newest group, and the steps by
// which an unknown outcome becomes known. The interface [Server] represents the database;
// internal/store/pg implements it in SQL.
//
// Invariants: an [Owner] answers a group as stored only in two cases. Either the database confirmed
// the commit and sent no notice with it, or a takeover after the commit found the group. If an
// answered group is missing later, the owner fails and stores nothing on top of the remaining data.
// An owner that was fenced stops.
//
// Concurrency: one goroutine gives commits to an Owner, one after the other. The owner calls its
// Server from one goroutine at a time.
package fencing
