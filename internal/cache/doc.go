// Package cache stores values by key up to a bound. It drops the values that were used longest ago first.
//
// Owns: the order of use and the sum of weights, on top of a list from a library.
//
// Guarantees: the stored values weigh at most the limit, except for a single heavier value that was put last. A value may be dropped at
// any time, so the cache must not be the only place of a value.
package cache
