// Package realstore lets the doubles of package testkit keep their rows in a real store:
// PAWL_TEST_STORE=postgres on PostgreSQL, badger in a directory. Tests that hold on the
// double hold on both, and the double says what they do.
package realstore
