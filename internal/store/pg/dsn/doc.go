// Package dsn contains the address of a PostgreSQL database and hides the password in it.
//
// Owns: the decision which parts of an address are shown. Only [URL.Secret] returns the password.
//
// Guarantees: a [URL] that is printed, marshalled or logged contains no password. No error of this
// package contains a password.
package dsn
