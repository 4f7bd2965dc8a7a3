// Package inprocess calls implementations of gRPC services by the names of their methods, without a
// server. It also abandons streams whose service ends.
//
// Owns: the table of services.
//
// Guarantees: a call through a [Board] calls the handler directly, with the same request. A stream ends
// soon after its service, even if the reader of the stream does not read.
package inprocess
