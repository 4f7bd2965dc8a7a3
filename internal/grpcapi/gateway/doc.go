// Package gateway serves pawl.v1 as ProtoJSON over HTTP. It serves the unary methods, streams of
// records as server-sent events, the OpenAPI document and the web page.
//
// Owns: the rules for HTTP, that is, hosts and origins, content types, and the form of JSON and of
// errors.
//
// Guarantees: the gateway is an ordinary client of the gRPC server, so it has no more rights than a
// gRPC client.
package gateway
