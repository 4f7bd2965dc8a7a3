// Package gateway serves pawl.v1 as ProtoJSON over HTTP: the unary methods, streams of records
// as server-sent events, the OpenAPI document and the page.
//
// It owns the parts of HTTP: hosts and origins, content types, the form of JSON and of errors
// there. Invariant: it is an ordinary client of the gRPC server, so it can do only what a gRPC
// caller can.
package gateway
