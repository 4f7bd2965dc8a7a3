// Package grpcapi is the sidecar's front door: it turns requests of pawl.v1
// into calls of the engine and the engine's answers into responses.
//
// Protobuf stops here. Handlers convert, call and convert back; what a run may
// do is decided further in. Everything that all requests share stands in a
// chain of interceptors: recovery, the one error table, authentication and
// scopes, the rate limit of the principal, and the constraints that the proto
// files declare.
//
// [New] builds a [Server] from a [Config] and binds its addresses;
// [Server.Serve] serves until [Server.Shutdown]. The same port answers
// grpc.health.v1 and server reflection. The JSON gateway is an ordinary client
// of this server over an in-memory connection, so it can do nothing that a gRPC
// caller could not.
package grpcapi
