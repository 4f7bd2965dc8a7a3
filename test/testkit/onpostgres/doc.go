// Command onpostgres lets suites that know data directories run on PostgreSQL.
//
//	onpostgres run CMD ARG...
//
// starts a server, runs CMD with PAWL_SIDECAR naming this program, and ends the server.
// Called by any other word it is the sidecar of PAWL_TEST_SIDECAR: where that is told a data
// directory, it is told to use the store in a schema of the server instead, one for each
// directory.
package main
