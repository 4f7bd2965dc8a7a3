// Package grpcapi is the gRPC server of the sidecar. It converts requests of pawl.v1 to calls of the
// engine, and the engine's answers to responses.
//
// The engine does not know the messages of pawl.v1. Handlers convert a request, call the engine and convert the answer.
// The engine decides what a run may do. A chain of interceptors does the work that all requests have in common, see
// intercept.go: recovery, errors, audit, authentication and scopes, the namespace, limits, and the constraints that the
// proto files declare.
//
// [New] builds a [Server] from a [Config] and binds its addresses. [Server.Serve] serves until
// [Server.Shutdown] is called. The same port serves grpc.health.v1 and server reflection. The JSON
// gateway is an ordinary client of this server over an in-memory connection, so it has no more rights
// than a gRPC caller.
//
// A server either has the services of one store permanently, or it has a [Router] that finds the
// services of a partition, in this process or in another one, see [Server.Services]. In both cases this
// server authenticates the caller, applies the limits, checks the constraints and writes the audit log.
// There are two exceptions: the audit line of a request in a worker's stream, and that of a request to
// an agent over HTTP, are written where the request is executed.
package grpcapi
