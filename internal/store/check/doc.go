// Package check proves what is stored, and makes anew what can be: Check every invariant
// of a store, Prove the journal of one run, ProveExport a portable file, Rebuild the rows
// that are not as their entries make them. The store calls it with a view of its last
// synced group; app and command line show what it found. It imports layout, codec and the
// machine. Its invariant: it never writes an entry, and what it is given to write with is
// its only way to write.
package check
