// Package latency counts how long things took: a histogram of fixed size, whose error is bounded,
// that many goroutines' own can be merged into.
//
// Owns: the buckets.
// Keeps: a quantile is at most one bucket's width off.
package latency
