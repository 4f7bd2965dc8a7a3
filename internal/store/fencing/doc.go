// Package fencing is the protocol of commits under an epoch: who owns a partition of a database
// that others may take over, and what became of a commit whose answer never came.
//
// Owns: the taking of a partition, its lease, the number of the newest group, the way from an
// unknown outcome to a known one.
// Keeps: a group is answered as stored only when the database said so without a word besides, or
// when a take-over that came after it found it. What was answered and is not there any more is
// never built upon. A node that was fenced does not go on.
package fencing
