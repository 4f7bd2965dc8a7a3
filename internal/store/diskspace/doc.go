// Package diskspace observes two things that the store depends on: the free disk space, and the log of
// Badger, which contains failures that no call returns. Only the store calls the package. The package
// imports layout for the type of damage.
//
// Guarantees: no work begins if the file system could have no block left for it.
package diskspace
