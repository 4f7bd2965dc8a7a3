// Package census counts the runs of a store by status without reading them.
//
// Owns: the counts, and their update by commits. Keeps: a count is that of the rows of the
// status index at the last synced group or later. Counts are only in memory.
package census
