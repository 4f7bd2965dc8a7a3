// Package pg keeps key-value pairs in PostgreSQL: it implements the contract of internal/store/kv in
// SQL, and the database's side of the protocol of internal/store/fencing.
//
// It owns the schema and its migrations, connections, statements, views, and the pages that store the
// keys of erasable runs.
//
// Invariants:
//
//   - A commit is one statement that begins with its fence, the check of the owner and the epoch. The
//     package never sends a cancel request to the connection of a commit, and never takes a notice on
//     it for success.
//   - A view is one transaction. It reads the newest group whole, and fails if the partition belongs
//     to another process.
//   - No statement depends on settings that an earlier statement made in the session. Therefore a
//     connection pooler may be between the sidecar and the database.
//
// Concurrency: a [DB] is one owned partition and is safe for concurrent use.
package pg
