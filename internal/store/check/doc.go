// Package check verifies stored data, and rebuilds the rows that can be rebuilt. Check verifies every
// invariant of a store, Prove the journal of one run, and ProveExport a portable file. Rebuild rewrites
// the rows that differ from the rows that their entries make. The store calls the package with a view
// of its last synced group. The command line shows the results. The package imports layout, codec and
// the machine.
//
// Guarantees: the package never writes an entry, and it writes only through the function that the
// caller passes.
package check
