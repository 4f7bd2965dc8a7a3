// Package cache holds values by key up to a bound; those used longest ago go first.
//
// Owns: the order of use and the sum of weights, over the list of a kept library.
// Keeps: what is held weighs at most the limit, but for the one value that was put last; forgetting
// costs time and never truth, so nothing is kept here alone.
package cache
