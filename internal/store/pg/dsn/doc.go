// Package dsn holds the address of a PostgreSQL database and hides the password in it.
//
// It owns the decision which parts of an address are shown. Only [URL.Secret] returns the password.
//
// Invariant: a [URL] that is printed, marshalled or logged contains no password. No error of this
// package contains one.
package dsn
