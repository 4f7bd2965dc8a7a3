// Package stat says what some rounds amount to: their median, how far they are apart, and whether
// that reaches a bar.
//
// Owns: the figures' arithmetic and their form in JSON.
// Keeps: rounds that differ by more than the way to the bar are inconclusive, never a verdict.
package stat
