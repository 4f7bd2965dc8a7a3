// Package gauge counts the contents of a store and their bytes.
//
// It owns the figures and the reading of them: in pages, each a short read of the same moment.
// The store passes that moment as a [View].
//
// Keeps: the package decodes no journal entry and writes no row. Its memory use does not depend
// on the size of the store.
package gauge
