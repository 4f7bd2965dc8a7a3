// Package many measures a store in a PostgreSQL database beside the embedded one.
//
// Owns: the schemas that the bench makes in the database and drops again, what the database says of
// how it syncs, its round trip, the figures of both stores and their bars.
// Keeps: no other schema is touched, none of ours stays; no password is in a command line
// or in a report.
package many
