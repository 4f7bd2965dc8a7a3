// Package pgserver starts real PostgreSQL servers for tests, from the binaries of this machine:
// $PAWL_POSTGRES_BIN, else the newest /usr/lib/postgresql/*/bin, else the PATH. A server has
// a directory of its own, listens at 127.0.0.1 alone and is stopped when its test ends, or
// when the test's process is killed. It is started as another user where the tests run as
// root, which PostgreSQL refuses.
//
// Tests that need it ask for it by PAWL_POSTGRES=1 and are skipped without it; with it, a
// machine that has no PostgreSQL fails them: see [Require].
//
// [Database] is a fresh database on one server per test binary, for tests that want a store;
// a package that uses it has a TestMain that calls [Main]. [Start] is a server for one test,
// which may kill, stop and promote it. Faults between the sidecar and the database are made
// by package relay, which is put in between.
package pgserver
