// Package openapi finishes the OpenAPI 3.1 document of the JSON gateway: what
// protoc-gen-connect-openapi writes is right about messages and paths and does not know what the
// comments and the gateway say. It is called by `make generate` only.
//
// Invariant: the same proto files give the same bytes, so that checkgenerate can compare.
package openapi
