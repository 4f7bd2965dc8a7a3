// Package grpcapi is the gRPC server of the sidecar: it turns requests of pawl.v1 into calls of
// the engine and the engine's answers into responses.
//
// Protobuf stops here. Handlers convert, call and convert back; the engine decides what a run
// may do. A chain of interceptors does the work that all requests share, see intercept.go: recovery,
// errors, audit, authentication and scopes, the namespace, limits, and the constraints that the proto
// files declare.
//
// [New] builds a [Server] from a [Config] and binds its addresses; [Server.Serve] serves until
// [Server.Shutdown]. The same port answers grpc.health.v1 and server reflection. The JSON
// gateway is an ordinary client of this server over an in-memory connection, so it can do only
// what a gRPC caller can.
//
// A server has the services of one store for its whole life, or a [Router] that finds the
// services of a partition, in this process or another one, see [Server.Services]. In both cases
// this server authenticates the caller, applies the limits, checks the constraints and writes the
// audit log. The audit line of a request inside a worker's stream, or over HTTP to an agent, is
// written where the request is executed.
package grpcapi
