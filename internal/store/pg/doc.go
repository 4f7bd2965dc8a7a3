// Package pg keeps pairs in PostgreSQL: the contract of kv in SQL, and the database's side of the
// protocol of fenced.
//
// Owns: the schema and its migrations, connections, statements, views, the pages of the keys of
// runs.
// Keeps: a commit is one statement that begins with its fence. Its connection is never sent a
// cancel request, and a notice on it is never taken for success. A view is one transaction that
// reads the newest group whole, and reads nothing of a partition that is another's. Nothing depends
// on earlier settings of a session, so that a pooler may be in between.
package pg
