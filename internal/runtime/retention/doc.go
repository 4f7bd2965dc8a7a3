// Package retention deletes runs that a caller deletes or that a rule of the operator selects, and erases the
// values of runs that a caller erases.
//
// Owns: the rights to delete or erase a run, the runs that the rules select, and the files that are written
// before. Keeps: an active run, or one with an active parent, is never deleted or erased. A rule that
// archives deletes a run only when its file is on disk, complete and with its name. An interrupted round
// starts again: the rules depend only on what is stored.
package retention
