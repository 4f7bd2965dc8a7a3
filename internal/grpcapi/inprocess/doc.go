// Package inprocess calls the implementations of gRPC services by the names of their methods, without a
// server, and abandons streams whose service ends.
//
// Owns: only the table of services. Keeps: a call through a [Board] is a direct call of the handler, with
// the same request; a stream ends soon after its service, even if its reader does not read.
package inprocess
