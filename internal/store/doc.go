// Package store keeps runs as pairs of keys and values. Each batch is one synced commit, and many
// batches share one sync. An engine keeps the pairs (see the packages kv and engine). It is Badger in
// one directory, or PostgreSQL.
//
// One goroutine, the committer, is the only writer. It collects the waiting batches in one group,
// checks each batch's preconditions against the store and against the batches before it, assigns a
// cursor to every entry, commits, syncs, and only then answers. A batch is stored whole or not at all,
// and never twice.
//
// A read sees every commit that was answered before the read began, and never waits for a commit that
// is being synced. A read uses the last synced group. If the engine shows groups that are not answered
// yet, it may use a later group.
//
// After an error of a commit it is unknown whether the commit happened. The store then accepts no more
// writes, [Store.Failed] is closed, and the next start finds out from the journal.
package store
