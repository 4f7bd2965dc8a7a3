// Package store keeps runs on Badger: one synced commit per batch, many batches
// per sync.
//
// One goroutine, the committer, is the only writer. It merges the batches that
// wait into one transaction, checks each batch's preconditions against the store
// and against the batches before it, gives every entry its cursor, commits, syncs
// and only then answers. A batch is stored whole or not at all and never twice.
//
// Reads see every commit that was answered before they began, and never wait for
// one that is being synced: Badger runs in managed mode and a read is made at the
// timestamp of the last synced group.
//
// What a commit error means: nobody knows whether it happened. The store then
// takes no more writes, [Store.Failed] is closed, and the journal decides at the
// next start.
package store
