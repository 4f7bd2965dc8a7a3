// Package check proves stored data, and rebuilds the rows that can be rebuilt. Check proves every
// invariant of a store, Prove the journal of one run, and ProveExport a portable file. Rebuild
// rewrites the rows that differ from what their entries make. The store calls it with a view of its
// last synced group; app and the command line show the results. It imports layout, codec and the
// machine. Its invariant: it never writes an entry, and it writes only through the function that
// the caller passes.
package check
