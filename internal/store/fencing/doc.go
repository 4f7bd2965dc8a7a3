// Package fencing implements commits under an epoch, the number of an ownership. It decides which
// process owns a partition of a database, and finds out the outcome of a commit whose answer did not
// arrive.
//
// Owns: the takeover of a partition, its lease, the number of the newest group of commits, and the
// steps by which an unknown outcome becomes known. The interface [Server] represents the database.
// internal/store/pg implements it in SQL.
//
// Guarantees: an [Owner] answers a group as stored only in two cases. Either the database confirmed the
// commit and sent no notice with it, or a takeover after the commit found the group. If an answered
// group is missing later, the owner fails and stores no more groups. An owner that was fenced stops.
//
// Concurrency: one goroutine passes commits to an Owner, one after the other. The owner calls its
// Server from one goroutine at a time.
package fencing
