// Package pgserver starts real PostgreSQL servers for tests, from the binaries of this machine:
// $PAWL_POSTGRES_BIN, else the newest /usr/lib/postgresql/*/bin, else the PATH.
//
// A server has a directory of its own and listens at 127.0.0.1 alone. It stops when its test ends,
// or when the test's process is killed. Where the tests run as root, which PostgreSQL refuses, the
// server runs as another user.
//
// Tests that need a server run only with PAWL_POSTGRES=1 and are skipped without it. With it, they
// fail on a machine that has no PostgreSQL: see [Require].
//
// [Database] is a fresh database on one server per test binary, for tests that want a store; a
// package that uses it has a TestMain that calls [Main]. [Start] starts a server for one test,
// which may kill, stop and promote it. Package relay stands between the sidecar and the database
// and makes faults there.
package pgserver
