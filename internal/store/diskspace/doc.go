// Package diskspace observes what the store depends on: the free disk space, and the log of Badger,
// which reports failures that no call returns. Only the store calls it; it imports layout for the
// type of damage. Its invariant: no work begins for which the file system may have no block left.
package diskspace
