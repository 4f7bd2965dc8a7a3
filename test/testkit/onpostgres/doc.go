// Command onpostgres runs test suites that know only data directories on PostgreSQL.
//
//	onpostgres run CMD ARG...
//
// starts a server, runs CMD with PAWL_SIDECAR naming this program, and ends the server.
//
// With any other first argument the command becomes the sidecar of PAWL_TEST_SIDECAR. Where the
// arguments name a data directory, it makes the sidecar use the store in a schema of the server
// instead, one schema for each directory.
package main
