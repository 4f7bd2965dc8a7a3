// Package store keeps runs in pairs of keys and values: one synced commit per batch,
// many batches per sync. What keeps the pairs is an engine, see the rooms kv and engine:
// Badger, in one directory.
//
// One goroutine, the committer, is the only writer. It merges the batches that
// wait into one group, checks each batch's preconditions against the store
// and against the batches before it, gives every entry its cursor, commits, syncs
// and only then answers. A batch is stored whole or not at all and never twice.
//
// Reads see every commit that was answered before they began, and never wait for
// one that is being synced: a read is made at the last synced group, or at a later one
// where the engine shows what is not told yet.
//
// What a commit error means: nobody knows whether it happened. The store then
// takes no more writes, [Store.Failed] is closed, and the journal decides at the
// next start.
package store
