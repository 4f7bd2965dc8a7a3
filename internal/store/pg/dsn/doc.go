// Package dsn is the address of a PostgreSQL database, whose password nobody sees who does
// not ask for it.
//
// Owns: what is shown of an address, and what is not. Called by: config, commands, app. It
// imports nothing of ours.
// Keeps: whichever way a [URL] is printed, marshalled or logged, its passwords are not in it;
// neither are they in an error of this package.
package dsn
