// Package stat says what some rounds amount to: their median, how far they are apart, and whether
// that reaches a bar. A histogram of fixed size counts how long things took.
//
// Owns: the figures' arithmetic and their form in JSON, and the buckets of the histogram.
// Keeps: rounds that differ by more than the way to the bar are inconclusive, never a verdict. A quantile of the
// histogram is at most one bucket's width off.
package stat
