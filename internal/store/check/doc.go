// Package check verifies stored data, and rebuilds the rows that can be rebuilt. Check verifies every
// invariant of a store, Prove the journal of one run, and ProveExport the file of an exported run.
// Rebuild rewrites the rows that differ from what the journal entries imply. The store calls the
// package with a view of its last synced commit. The command line shows the results. The package
// imports layout, codec and the machine.
//
// Guarantees: the package never writes a journal entry, and it writes only through the function that
// the caller passes.
package check
