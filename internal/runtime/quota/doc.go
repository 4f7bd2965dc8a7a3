// Package quota limits how much of the sidecar one namespace and one principal may use: calls and
// starts per time, open runs, streams, and resources that other packages count.
//
// Owns: the current table of bounds; the rates; the counts of open runs and streams.
//
// Guarantees: no bound is exceeded, even if many callers make requests at the same time. Open runs are
// counted from the store, so a restart changes no count. A nil [Limits] has no bounds.
package quota
