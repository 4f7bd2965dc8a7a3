// Package walk goes over runs in their order, by rows of several indexes at once.
//
// Owns: how rows that are sorted by run are merged.
// Keeps: each run is met once, newest or oldest first.
package walk
