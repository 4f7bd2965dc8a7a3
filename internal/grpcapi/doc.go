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
//
// A server has its house as long as it lives, or a [Router] that knows where one is:
// this process or another one's, see [Server.Services]. Who calls, how much of it there may
// be, whether a request keeps its constraints and the audit of it are this server's in both
// cases; what is asked within a stream of a worker, and over HTTP of an agent, has its line
// where the house is.
package grpcapi
