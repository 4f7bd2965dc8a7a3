// Package gateway serves pawl.v1 as ProtoJSON over HTTP: the unary methods, streams of records as
// server-sent events, the OpenAPI document and the page.
//
// It owns what is HTTP: hosts and origins, content types, the form of JSON and errors there.
// Invariant: it is an ordinary client of the gRPC server, so it can do nothing that a gRPC caller
// could not.
package gateway
