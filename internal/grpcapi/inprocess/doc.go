// Package inprocess calls the implementations of gRPC services by the names of their methods,
// without a server in between, and lets go of streams whose service ends.
//
// Owns: nothing but the table. Called by: the edge, which makes a board of each house's
// services; whoever routes calls to them.
// May import: sent.
// Keeps: a call through a board is the handler's own, with the request that it is given; a
// stream is over soon after its service ended, whatever its reader does.
package inprocess
