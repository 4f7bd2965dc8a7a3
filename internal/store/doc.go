// Package store keeps runs as pairs of keys and values. Each batch is one synced commit, and one
// sync serves many batches. The pairs are kept by an engine (see the packages kv and engine):
// Badger in one directory, or PostgreSQL.
//
// One goroutine, the committer, is the only writer. It merges the waiting batches into one
// group, checks each batch's preconditions against the store and against the batches before it,
// gives every entry its cursor, commits, syncs, and only then answers. A batch is stored whole
// or not at all, and never twice.
//
// Reads see every commit that was answered before they began, and never wait for a commit that
// is being synced. A read is made at the last synced group, or at a later one where the engine
// shows groups that are not answered yet.
//
// After a commit error it is unknown whether the commit happened. The store then takes no more
// writes, [Store.Failed] is closed, and the journal decides at the next start.
package store
