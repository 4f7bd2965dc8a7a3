// Package gauge counts what a store holds and what that takes.
//
// Owns: the figures, and how they are read: in pages, each a short read of the same moment.
// Keeps: it reads no entry, writes nothing, and holds counters alone, however large the store is.
package gauge
