// Package dsn holds the address of a PostgreSQL database and hides its password.
//
// Invariant: a [URL] that is printed, marshalled or logged has no password, and no error of this
// package has one. A caller that needs the password asks for it by name ([URL.Secret]).
package dsn
