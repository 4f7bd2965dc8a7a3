// Package gauge counts what a store holds and how many bytes that takes.
//
// It owns the figures and the reading of them: in pages, each a short read of the same moment. The
// store gives it that moment as a [View].
//
// Keeps: the package decodes no journal entry and writes nothing. It holds only counters in memory,
// however large the store is.
package gauge
