// Package cache holds values by key up to a bound; the values used longest ago are dropped first.
//
// Owns: the order of use and the sum of weights, on top of a library's list. Keeps: the held values weigh at
// most the limit, except for a single heavier value that was put last. Values may be dropped at any time, so
// the cache must not be the only place of a value.
package cache
