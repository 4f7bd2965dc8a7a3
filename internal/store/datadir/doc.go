// Package datadir looks at the files of a directory before Badger has them: the lock,
// the tables and logs, the HEAD file that says what was acknowledged, and how far a
// migration is. The store calls it when it opens and, for HEAD, with every group. It
// imports layout for the type of damage, and Badger's formats. Its invariant: it changes
// nothing that Badger wrote, and HEAD never claims what is not synced.
package datadir
