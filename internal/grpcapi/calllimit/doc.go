// Package calllimit limits the calls of a principal and the streams that are open at once.
//
// It owns the count of open streams. Package quota counts rates. Package grpcapi calls it after the
// caller is authenticated. Invariant: an error says when the caller may try again.
package calllimit
