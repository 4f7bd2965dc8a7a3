// Package diskspace is what the store has of the machine below it: room on the disk, and the
// log of Badger, which tells failures that no call returns. The store alone calls it; it
// imports layout for the type of damage. Its invariant: no work is begun for which the
// file system may have no block left.
package diskspace
