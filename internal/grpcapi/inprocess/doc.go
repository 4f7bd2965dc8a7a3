// Package inprocess calls the implementations of gRPC services by the names of their methods,
// without a server in between, and lets go of streams whose service ends.
//
// Owns: nothing but the table.
// Keeps: a call through a board is the handler's own, with the request that it is given; a stream
// is over soon after its service ended, also if its reader does nothing.
package inprocess
