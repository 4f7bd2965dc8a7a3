// Package realstore lets the doubles of package testkit keep their rows in a real store:
// PAWL_TEST_STORE=postgres keeps them in PostgreSQL, badger in a directory.
//
// A test that holds on the double also holds on both real stores. The doubles then show that they
// do what the real stores do.
package realstore
