// Package calllimit limits the calls of a principal and the number of open streams.
//
// Owns: the count of open streams. Package quota counts rates. Package grpcapi calls this package after
// the caller is authenticated.
//
// Guarantees: an error says when the caller may try again.
package calllimit
