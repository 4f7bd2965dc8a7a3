// Package load measures Pawl against yardsticks of the same machine and the
// same minute: the file system's fsync, a bare gRPC echo, Badger written
// naively, and the committer without an engine.
//
// Everything that is measured runs in a process of its own, started from the
// same binary; the parent only starts, times and stops. Figures that are
// compared are taken in interleaved rounds, and a comparison is the median of
// the rounds' own ratios, so that a machine that becomes slower half-way makes
// the spread wider and not the answer wrong.
package load
